//! Finds the system-call sites of an object, and a window at each where a five-byte jump fits.
//!
//! Invariant: a byte is replaced only if it is proven to be code: control reaches it from the start of a function that the
//! object delimits, the function's flow is whole, eax holds a number there, and nothing leads into the window but to its
//! start. `0f 05` outside every function is data, unless a number is set before it; or it is of the loader's start. `0f 05`
//! in a function that is neither a proven site nor part of another proven instruction is doubt, and an object with a doubt
//! is not rewritten.
//! Not here: code that is made at run time; how a function is followed (flow.rs); the search for ways in (ways.rs).
use super::bridge::{self, Bridge};
use super::flow::Flow;
use super::functions::Function;
use super::headers::{Elf, Segment, bytes_of, dynamic, executable, is_go, note};
use super::number::Numbers;
use super::program;
use super::runtime;
use super::text::Text;
use super::ways::{self, Proofs};
use super::window::{Site, window};
use byway_pipe::calls::{self, Does};
use iced_x86::{Code, Instruction};
use object::elf;
use object::read::elf::FileHeader;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

/// What a scan found.
pub struct Scan<'a> {
    pub texts: Vec<Pages<'a>>,
    /// The file's build-id, and where it has it; empty if it has none.
    pub build_id: Vec<u8>,
    pub build_id_off: u64,
    /// What else is known of it (crate sys, cached.rs).
    pub flags: u64,
    pub sites: Vec<Site>,
    /// Pairs `0f 05` outside every function.
    pub data: u32,
    /// glibc's cancellable calls go through here.
    pub bridge: Option<Bridge>,
}

/// The pages of one executable segment, as the file has them.
pub struct Pages<'a> {
    pub vaddr: u64,
    pub offset: u64,
    pub bytes: &'a [u8],
}

/// Bytes between executable segments, all together, that are gone through as one text.
const GAPS: u64 = 256 << 20;
/// No system call of Linux has a number as high as this.
const MOST_NUMBER: u64 = 1024;
/// The loader's start goes no further before it jumps to the program.
const NEAR: u64 = 128;
const PAIR: [u8; 2] = [0x0f, 0x05];

/// What a pair `0f 05` is.
enum Pair {
    /// Outside every function: data, or the loader's start, which runs before any library.
    Outside,
    /// Bytes of another instruction.
    Inner,
    /// The return from a signal handler: gdb and libgcc know it by its bytes.
    Return,
    /// The system call of this function.
    Call(Function, Rc<Flow>),
}

/// Scans an x86-64 ELF object.
///
/// # Errors
/// A sentence that says why the object cannot be rewritten.
pub fn scan(bytes: &[u8]) -> Result<Scan<'_>, String> {
    let file = Elf::parse(bytes).map_err(|e| format!("not a 64-bit ELF file: {e}"))?;
    let endian = file.endian();
    if file.elf_header().e_machine(endian) != elf::EM_X86_64 {
        return Err("not an x86-64 program".into());
    }
    let segments = executable(&file)?;
    let id = note(&file, bytes, b"GNU", elf::NT_GNU_BUILD_ID).unwrap_or(&[]);
    let mut out = Scan {
        texts: Vec::new(),
        build_id: id.to_vec(),
        // Of an empty one it says nothing.
        build_id_off: (id.as_ptr() as u64).wrapping_sub(bytes.as_ptr() as u64),
        flags: runtime::flags(&file) | program::flags(&file, bytes),
        sites: Vec::new(),
        data: 0,
        bridge: None,
    };
    for s in &segments {
        out.texts.push(pages(s, bytes)?);
    }
    let Some(low) = segments.first().map(|s| s.address) else {
        // Data alone.
        return Ok(out);
    };
    let code = joined(&segments, bytes)?;
    // Most objects have no pair at all: nothing is decoded.
    let pairs: Vec<u64> = memchr::memmem::find_iter(&code, &PAIR)
        .map(|k| low + k as u64)
        .collect();
    if pairs.is_empty() {
        return Ok(out);
    }
    if segments.iter().any(|s| s.changes) {
        return Err("its text can be written".into());
    }
    let (soname, relocated) = dynamic(&file, bytes)?;
    if relocated {
        return Err("the loader changes its text".into());
    }
    if is_go(&file, bytes) {
        return Err("a program in Go makes its own system calls".into());
    }
    let ranges = segments.iter().map(|s| (s.address, s.end())).collect();
    let text = Text::new(&file, bytes, code, ranges)?;
    let is_loader = soname == "ld-linux-x86-64.so.2";
    Scanner {
        text: &text,
        glibc: soname == "libc.so.6" || is_loader,
        loader_entry: is_loader.then(|| file.elf_header().e_entry(endian)),
        flows: RefCell::default(),
    }
    .sites(&pairs, &mut out)?;
    Ok(out)
}

/// The pages of `s`. What else lies in its first and last one is mapped too.
fn pages<'a>(s: &Segment, bytes: &'a [u8]) -> Result<Pages<'a>, String> {
    let outside = "its text lies outside the file";
    bytes_of(bytes, s.offset, s.size).ok_or(outside)?;
    let from = s.offset & !4095;
    let to = (s.offset + s.size)
        .next_multiple_of(4096)
        .min(bytes.len() as u64);
    Ok(Pages {
        vaddr: s.pages().0,
        offset: from,
        bytes: bytes_of(bytes, from, to - from).ok_or(outside)?,
    })
}

/// The code of all `segments`, from the first one's address on.
fn joined<'a>(segments: &[Segment], bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, String> {
    let outside = "its text lies outside the file";
    let of = |s: &Segment| bytes_of(bytes, s.offset, s.size).ok_or(outside);
    let (first, last) = (&segments[0], &segments[segments.len() - 1]);
    if segments.len() == 1 {
        return Ok(Cow::Borrowed(of(first)?));
    }
    let span = last.end() - first.address;
    if span - segments.iter().map(|s| s.size).sum::<u64>() > GAPS {
        return Err("its executable segments lie far apart".into());
    }
    let mut all = vec![0xcc; span as usize];
    for s in segments {
        let at = (s.address - first.address) as usize;
        all[at..at + s.size as usize].copy_from_slice(of(s)?);
    }
    Ok(Cow::Owned(all))
}

struct Scanner<'a> {
    text: &'a Text<'a>,
    /// libc or the dynamic loader: some of their hand-written functions end before their unwind entry does.
    glibc: bool,
    loader_entry: Option<u64>,
    flows: RefCell<HashMap<(u64, u64), Rc<Flow>>>,
}

impl Scanner<'_> {
    fn sites(&self, pairs: &[u64], out: &mut Scan) -> Result<(), String> {
        let mut calls = Vec::new();
        for &at in pairs {
            match self.pair(at)? {
                Pair::Outside => out.data += 1,
                Pair::Inner | Pair::Return => {}
                Pair::Call(f, flow) => calls.push((at, f, flow)),
            }
        }
        let mut sites = Vec::new();
        for (at, f, flow) in calls {
            let k = flow.index(at).expect("a reached instruction");
            if let Some((start, pending)) = bridge::find(&flow.insns, k)? {
                out.bridge = Some(bridge::reach(start, pending, self.bridge_calls(start)?)?);
                continue;
            }
            let numbers = Numbers::at(&flow, at);
            if numbers.unset {
                return Err(format!(
                    "it is in doubt whether there is a system call at {at:#x}: no number is set"
                ));
            }
            let known = (!numbers.computed).then_some(numbers.known);
            let matters = |n: &u64| calls::of(*n as usize) != Does::Runs;
            if known.as_ref().is_some_and(|v| !v.iter().any(matters)) {
                continue;
            }
            sites.push((at, k, f, flow, known));
        }
        let zones: Vec<(u64, u64)> = sites.iter().map(|s| ways::zone(s.0)).collect();
        let targets = ways::into(self.text, &zones, self);
        let mut taken = 0;
        for (at, k, f, flow, numbers) in sites {
            let all: BTreeSet<u64> = {
                let (from, to) = ways::zone(at);
                let own = flow.targets.range(from..to);
                own.chain(targets.range(from..to)).copied().collect()
            };
            match window(&flow.insns, k, &all, taken) {
                Some(mut s) => {
                    taken = s.end;
                    s.function = f.start;
                    s.numbers = numbers;
                    out.sites.push(s);
                }
                None => {
                    return Err(format!(
                        "something may lead between the instructions of the system call at {at:#x}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// The flow of `f`, followed once.
    fn flow(&self, f: Function, limit: u64) -> Rc<Flow> {
        let known = self.flows.borrow().get(&(f.start, limit)).cloned();
        known.unwrap_or_else(|| {
            let flow = Rc::new(Flow::of(self.text, f, limit));
            self.flows
                .borrow_mut()
                .insert((f.start, limit), flow.clone());
            flow
        })
    }

    /// What the pair at `at` is.
    fn pair(&self, at: u64) -> Result<Pair, String> {
        let mut around: Vec<(Function, u64)> = self
            .text
            .functions
            .around(at, at + 2)
            .map(|f| (f, f.end))
            .collect();
        // The linker's stubs push numbers and jump: they make no calls, whether a table describes them or not.
        if self.text.in_stubs(at) {
            return Ok(Pair::Inner);
        }
        if around.is_empty() {
            match self.function_over_its_end(at) {
                Some(part) => around.push(part),
                None if self.is_at_the_start(at) => return Ok(Pair::Outside),
                None if self.looks_like_a_call(at) => {
                    return Err(format!(
                        "at {at:#x}, outside every function, is what looks like a system call"
                    ));
                }
                None => return Ok(Pair::Outside),
            }
        }
        let mut why = String::from("nothing leads to it");
        let (mut call, mut inner, mut seen) = (None, false, Vec::new());
        for (f, limit) in around {
            if f.trampoline {
                return Ok(Pair::Return);
            }
            let flow = self.flow(f, limit);
            if let Some(doubt) = &flow.doubt {
                why.clone_from(doubt);
                seen.push((f, flow.clone()));
                continue;
            }
            if flow
                .index(at)
                .is_some_and(|k| flow.insns[k].code() == Code::Syscall)
            {
                call = Some((f, flow.clone()));
            }
            for i in flow.inside(at) {
                inner |= i.code() != Code::Syscall;
            }
        }
        match (call, inner) {
            (Some((f, flow)), false) => Ok(Pair::Call(f, flow)),
            (None, true) => Ok(Pair::Inner),
            (None, false) if self.is_passed_over(at, &seen) => Ok(Pair::Inner),
            _ => Err(format!(
                "it is in doubt whether there is a system call at {at:#x}: {why}"
            )),
        }
    }

    /// Whether the pair at `at` lies within an instruction of each of these flows, which are not whole, and nothing
    /// before it sets a number (ADR 24). A system call there would have to begin in the middle of an instruction, and to
    /// get its number from afar; compilers make neither.
    fn is_passed_over(&self, at: u64, flows: &[(Function, Rc<Flow>)]) -> bool {
        let within = |flow: &Flow| {
            !flow.contradicts && flow.index(at).is_none() && flow.inside(at).next().is_some()
        };
        !flows.is_empty()
            && (flows.iter()).all(|(f, flow)| within(flow) || within(&Flow::direct(self.text, *f)))
            && !self.looks_like_a_call(at)
    }

    /// glibc's function that goes on behind its end as far as `at`, and where it must end at last.
    fn function_over_its_end(&self, at: u64) -> Option<(Function, u64)> {
        let (f, next) = self.text.functions.before(at).filter(|_| self.glibc)?;
        let limit = next.unwrap_or(self.text.high());
        let last = self.flow(f, limit).insns.last().map(Instruction::next_ip);
        last.is_some_and(|end| end > at).then_some((f, limit))
    }

    /// Whether some way to read the bytes before `at` sets a number for a system call there. Programs of compilers that
    /// tell nobody where their functions are make their system calls so.
    fn looks_like_a_call(&self, at: u64) -> bool {
        const FAR: u64 = 40;
        if !self.text.in_section(at) {
            return false;
        }
        let from = self.text.low.max(at.saturating_sub(FAR));
        (from..at).any(|from| {
            let line = self.text.line(from, at);
            line.is_some_and(|insns| {
                let numbers = Numbers::after(&insns);
                let likely = numbers.known.iter().all(|&n| n < MOST_NUMBER);
                !numbers.unset && likely
            })
        })
    }

    /// Whether the pair at `at` lies on the straight line from the loader's entry, and nothing else leads behind its number.
    /// glibc has no unwind entry for it, and where it is built for shadow stacks (Ubuntu) it asks the kernel for one.
    fn is_at_the_start(&self, at: u64) -> bool {
        let is_near = |e: &u64| self.text.holds(*e) && *e < at && at - e < NEAR;
        let Some(line) = self
            .loader_entry
            .filter(is_near)
            .and_then(|e| self.text.line(e, at))
        else {
            return false;
        };
        let sets = line
            .last()
            .filter(|i| !Numbers::after(std::slice::from_ref(i)).unset);
        sets.is_some_and(|i| ways::into(self.text, &[(i.ip() + 1, at + 1)], self).is_empty())
    }

    /// The instructions that lead to the bridge at `start`, each proven.
    fn bridge_calls(&self, start: u64) -> Result<Vec<Instruction>, String> {
        let mut v = Vec::new();
        let all = self.text.branches();
        let first = all.partition_point(|b| b.0 < start);
        for &(_, at) in all[first..].iter().take_while(|b| b.0 == start) {
            let found = self.text.functions.around(at, at + 1).find_map(|f| {
                let flow = self.flow(f, f.end);
                let k = flow.index(at)?;
                let leads = flow.insns[k].near_branch_target() == start;
                (flow.doubt.is_none() && leads).then(|| flow.insns[k])
            });
            match found {
                Some(i) => v.push(i),
                None if self.is_inner(at, start) => {}
                None => {
                    return Err(format!(
                        "it is in doubt whether the bytes at {at:#x} call the cancellation bridge"
                    ));
                }
            }
        }
        Ok(v)
    }
}

impl Proofs for Scanner<'_> {
    fn is_inner(&self, at: u64, to: u64) -> bool {
        self.text.functions.around(at, at + 1).any(|f| {
            let flow = self.flow(f, f.end);
            flow.doubt.is_none()
                && flow.index(at).is_none()
                && flow.inside(at).any(|i| {
                    let takes = i.is_ip_rel_memory_operand() && i.ip_rel_memory_address() == to;
                    i.near_branch_target() != to && !takes
                })
        })
    }

    /// A whole flow knows each table that the function goes by, and another function's table is taken there.
    fn takes_no_table(&self, at: u64, ways: &[u64]) -> bool {
        let mut around = self.text.functions.around(at, at + 1).peekable();
        around.peek().is_some()
            && around.all(|f| {
                let flow = self.flow(f, f.end);
                flow.doubt.is_none() && !flow.by_table().any(|to| ways.contains(&to))
            })
    }
}
