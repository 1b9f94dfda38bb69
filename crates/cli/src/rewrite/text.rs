//! The text of one object, with what is asked of all of it: functions, branches, addresses taken, pointers.
//!
//! Invariant: what is found by its bytes alone (branches, addresses taken) may be more than there is, never less.
//! Not here: the control flow of a function (flow.rs).
use super::branches;
use super::functions::{Function, Functions};
use super::headers::{self, Elf};
use super::instruction::{ends, is_filler, is_ordinary};
use iced_x86::{Decoder, DecoderOptions, Instruction};
use object::Object;
use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;

/// The object whose functions are followed.
pub struct Text<'a> {
    pub file: &'a Elf<'a>,
    pub bytes: &'a [u8],
    /// The executable segments from `low` on. What lies between two of them is no code: 0xcc.
    pub code: Cow<'a, [u8]>,
    pub low: u64,
    /// Where they lie.
    ranges: Vec<(u64, u64)>,
    pub functions: Functions,
    /// What the loader writes where: pointers, by address.
    pointers: OnceCell<HashMap<u64, u64>>,
    /// Where each branch, or what looks like one, leads: target and place, sorted.
    branches: OnceCell<Vec<(u64, u64)>>,
    /// The data whose address the text takes, sorted: a table ends where something else begins.
    taken: OnceCell<Vec<u64>>,
    /// The linker's stubs for calls of other objects: instructions in a row, each of which may be entered by a pointer.
    stubs: Vec<(u64, u64)>,
    /// Where the linker put code; empty if the object does not say.
    sections: Vec<(u64, u64)>,
}

impl<'a> Text<'a> {
    /// The text `code`, which has what the file has at `ranges`.
    ///
    /// # Errors
    /// A sentence: a table cannot be read.
    pub fn new(
        file: &'a Elf<'a>,
        bytes: &'a [u8],
        code: Cow<'a, [u8]>,
        ranges: Vec<(u64, u64)>,
    ) -> Result<Text<'a>, String> {
        Ok(Text {
            file,
            bytes,
            code,
            low: ranges[0].0,
            functions: Functions::of(file, bytes, &ranges)?,
            ranges,
            pointers: OnceCell::new(),
            branches: OnceCell::new(),
            taken: OnceCell::new(),
            stubs: headers::stubs(file),
            sections: headers::sections(file),
        })
    }

    pub fn high(&self) -> u64 {
        self.low + self.code.len() as u64
    }

    pub fn holds(&self, at: u64) -> bool {
        self.ranges
            .iter()
            .any(|&(low, high)| at >= low && at < high)
    }

    /// Every branch, or what looks like one: where it leads and where it stands, by the former.
    pub fn branches(&self) -> &[(u64, u64)] {
        self.branches
            .get_or_init(|| branches::all(&self.code, self.low))
    }

    /// The addresses outside the text that it takes, or seems to, sorted.
    pub fn taken(&self) -> &[u64] {
        self.taken
            .get_or_init(|| branches::taken(self.file, &self.code, self.low, |at| self.holds(at)))
    }

    /// The pointer at `at`, whose bytes in the file are `word`.
    pub fn pointer(&self, at: u64, word: &[u8]) -> u64 {
        let pointers = self.pointers.get_or_init(|| {
            let relocations = self.file.dynamic_relocations().into_iter().flatten();
            relocations.map(|(at, r)| (at, r.addend() as u64)).collect()
        });
        let in_file = u64::from_le_bytes(word.try_into().expect("eight bytes"));
        pointers.get(&at).copied().unwrap_or(in_file)
    }

    /// The instructions of a straight line from `from` to exactly `to`.
    pub fn line(&self, from: u64, to: u64) -> Option<Vec<Instruction>> {
        let code = &self.code[(from - self.low) as usize..(to - self.low) as usize];
        let insns: Vec<Instruction> = Decoder::with_ip(64, code, from, DecoderOptions::NONE)
            .iter()
            .collect();
        insns
            .iter()
            .all(|i| is_ordinary(i) && !ends(i))
            .then_some(insns)
    }

    /// Whether [from, to) is only what assemblers and compilers fill with: nops, traps, zeros.
    pub fn is_padding(&self, from: u64, to: u64) -> bool {
        let part = &self.code[(from - self.low) as usize..(to - self.low) as usize];
        if part.iter().all(|&b| b == 0) || part.iter().all(|&b| b == 0xcc) {
            return true;
        }
        Decoder::with_ip(64, part, from, DecoderOptions::NONE)
            .iter()
            .all(|i| is_filler(&i))
    }

    /// The functions that seem to jump into `f`, not to its start.
    pub fn that_jump_into(&self, f: Function) -> Vec<Function> {
        let branches = self.branches();
        let from = branches.partition_point(|b| b.0 <= f.start);
        let inward = branches[from..].iter().take_while(|b| b.0 < f.end);
        let mut v: Vec<Function> = inward
            .flat_map(|&(_, at)| self.functions.around(at, at + 1))
            .filter(|g| !(g.start >= f.start && g.end <= f.end))
            .collect();
        v.sort_unstable_by_key(|g| (g.start, g.end));
        v.dedup_by_key(|g| g.start);
        v
    }

    pub fn in_stubs(&self, at: u64) -> bool {
        self.stubs.iter().any(|&(from, to)| at >= from && at < to)
    }

    /// Whether code may stand at `at`, as far as the object tells.
    pub fn in_section(&self, at: u64) -> bool {
        self.sections.is_empty()
            || self
                .sections
                .iter()
                .any(|&(from, to)| at >= from && at < to)
    }

    pub fn byte(&self, at: u64) -> u8 {
        self.code[(at - self.low) as usize]
    }
}
