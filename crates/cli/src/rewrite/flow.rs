//! Follows the control flow of one function from its start: which of its bytes are instructions.
//!
//! Invariant: an instruction counts only if control reaches it: from the start, from a landing pad, or by a jump table. A
//! flow proves something only if it is whole: each byte of the function is reached or padding, and no step of it contradicts
//! another. A jump whose ways are unknown, or an entry that no table has, makes it not whole.
//! Compilers lay the unlikely blocks of a function elsewhere, as a function of their own that other code jumps into: the
//! parts of a function that jump into each other are followed as one.
//! Not here: what is done with a system call (scan.rs).
use super::functions::Function;
use super::instruction::{branch_target, call_target, ends, is_call, is_ordinary, may_end};
use super::text::Text;
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What following one function found.
pub struct Flow {
    /// Each reached instruction, in order. Two overlap only at a skipped `lock` prefix.
    pub insns: Vec<Instruction>,
    /// Where control arrives other than from the instruction before.
    pub targets: BTreeSet<u64>,
    /// Where control enters: the start, and the landing pads.
    pub roots: Vec<u64>,
    /// Of each indirect jump that goes by a table, where to.
    tables: HashMap<u64, Vec<u64>>,
    /// Why the flow proves no system call.
    pub doubt: Option<String>,
    /// Some step of it contradicts another. Else a flow with a doubt is only not complete.
    pub contradicts: bool,
}

/// Longest x86 instruction.
const LONGEST: u64 = 15;
/// Less than this many bytes fill up to the next multiple of 16.
const FILLER: u64 = 16;
/// A function in more parts than this is not followed.
const PARTS: usize = 64;
/// The gaps of a function are gone through so often.
const ROUNDS: usize = 64;
/// What stands behind an instruction that does not come back: int3.
const TRAP: u8 = 0xcc;
/// Each call that turns out not to come back is a walk more.
const LAST_CALLS: usize = 16;

impl Flow {
    /// Follows `f`, which may go on up to `limit` where it runs over its end.
    pub fn of(text: &Text, f: Function, limit: u64) -> Flow {
        Flow::by(text, f, limit, true)
    }

    /// The same by branches alone, and then one instruction after the other where they do not lead. No table can have been
    /// believed wrongly. That bytes are code is only likely then; that they are read in step is not in doubt.
    pub fn direct(text: &Text, f: Function) -> Flow {
        Flow::by(text, f, f.end, false)
    }

    fn by(text: &Text, f: Function, limit: u64, tables: bool) -> Flow {
        let mut parts = vec![Part { f, limit }];
        loop {
            let flow = Flow::of_parts(text, &parts, tables);
            // Perhaps it is a part that others jump into, which may be parts themselves.
            let known = parts.len();
            for k in 0..known {
                if flow.doubt.is_none() {
                    break;
                }
                for g in text.that_jump_into(parts[k].f) {
                    if !parts.iter().any(|p| p.f.start == g.start) {
                        parts.push(Part::whole(g));
                    }
                }
            }
            if parts.len() == known || parts.len() > PARTS || !tables {
                return flow;
            }
        }
    }

    fn of_parts(text: &Text, parts: &[Part], by_tables: bool) -> Flow {
        let mut walk = Walk {
            text,
            by_tables,
            parts: Vec::new(),
            roots: Vec::new(),
            insns: BTreeMap::new(),
            ways: HashMap::new(),
            targets: BTreeSet::new(),
            tables: HashMap::new(),
            todo: Vec::new(),
            last_calls: BTreeSet::new(),
            doubt: None,
            contradicts: false,
        };
        for p in parts {
            walk.add(*p);
        }
        walk.run();
        // What stands behind a call that does not come back may be anything: it shows where it contradicts the rest.
        while let Some(call) = walk.last_call() {
            walk.start_again(call, parts);
        }
        if !by_tables {
            walk.fill_gaps();
        }
        walk.check();
        Flow {
            insns: walk.insns.into_values().collect(),
            targets: walk.targets,
            roots: walk.roots,
            tables: walk.tables,
            doubt: walk.doubt,
            contradicts: walk.contradicts,
        }
    }

    /// The index of the instruction that begins at `at`.
    pub fn index(&self, at: u64) -> Option<usize> {
        self.insns.binary_search_by_key(&at, |i| i.ip()).ok()
    }

    /// The instructions that have the byte at `at`, not as their first.
    pub fn inside(&self, at: u64) -> impl Iterator<Item = &Instruction> {
        let n = self.insns.partition_point(|i| i.ip() < at);
        self.insns[..n]
            .iter()
            .rev()
            .take_while(move |i| i.ip() + LONGEST > at)
            .filter(move |i| i.next_ip() > at)
    }

    /// Where the function's tables lead.
    pub fn by_table(&self) -> impl Iterator<Item = u64> {
        self.tables.values().flatten().copied()
    }

    /// Where control may be after instruction `i`, within the function.
    pub fn after(&self, i: &Instruction) -> impl Iterator<Item = u64> {
        let next = (!ends(i)).then(|| i.next_ip());
        let branch = branch_target(i);
        let own = call_target(i).filter(|&to| self.index(to).is_some());
        let table = self.tables.get(&i.ip()).into_iter().flatten().copied();
        next.into_iter().chain(branch).chain(own).chain(table)
    }
}

#[derive(Clone, Copy)]
pub struct Part {
    f: Function,
    limit: u64,
}

impl Part {
    fn whole(f: Function) -> Part {
        Part { f, limit: f.end }
    }

    pub fn holds(&self, at: u64) -> bool {
        at >= self.f.start && at < self.limit
    }
}

pub struct Walk<'a> {
    pub text: &'a Text<'a>,
    /// Whether indirect jumps are followed.
    by_tables: bool,
    pub parts: Vec<Part>,
    pub roots: Vec<u64>,
    pub insns: BTreeMap<u64, Instruction>,
    /// The instructions from which control arrives at an address.
    pub ways: HashMap<u64, Vec<u64>>,
    targets: BTreeSet<u64>,
    pub tables: HashMap<u64, Vec<u64>>,
    todo: Vec<u64>,
    /// Calls that do not come back.
    last_calls: BTreeSet<u64>,
    doubt: Option<String>,
    contradicts: bool,
}

impl Walk<'_> {
    pub fn doubt(&mut self, at: u64, what: &str) {
        self.contradicts = true;
        self.is_part(at, what);
    }

    /// There is more than was followed.
    pub fn is_part(&mut self, at: u64, what: &str) {
        self.doubt
            .get_or_insert_with(|| format!("{what} at {at:#x}"));
    }

    fn add(&mut self, p: Part) {
        let pads = self.text.functions.pads(p.f.start, p.f.end);
        for &root in [p.f.start].iter().chain(pads) {
            self.roots.push(root);
            self.targets.insert(root);
            self.todo.push(root);
        }
        self.parts.push(p);
    }

    fn run(&mut self) {
        let mut jumps = Vec::new();
        loop {
            while let Some(at) = self.todo.pop() {
                self.straight(at, &mut jumps);
            }
            // A table's base may be loaded far from its jump: all of what is reached without it comes first.
            let Some(jump) = jumps.pop() else { break };
            self.indirect(jump);
            if self.contradicts {
                break;
            }
        }
    }

    /// Decodes from `at` to where control ends, or to what is known.
    fn straight(&mut self, mut at: u64, jumps: &mut Vec<u64>) {
        let Some(part) = self.parts.iter().copied().find(|p| p.holds(at)) else {
            return;
        };
        let code = &self.text.code[..(part.limit - self.text.low) as usize];
        while part.holds(at) && !self.insns.contains_key(&at) {
            let rest = &code[(at - self.text.low) as usize..];
            let i = Decoder::with_ip(64, rest, at, DecoderOptions::NONE).decode();
            if !is_ordinary(&i) {
                return self.doubt(at, "no instruction of a program");
            }
            self.insns.insert(at, i);
            if let Some(to) = branch_target(&i) {
                self.branch(at, to);
            }
            let stub = self.text.in_stubs(at);
            match i.flow_control() {
                FlowControl::IndirectBranch if !stub && self.by_tables => jumps.push(at),
                FlowControl::Call if i.code() != Code::Syscall => {
                    self.targets.insert(i.next_ip());
                    // A call of a place of its own: glibc's setcontext(3) makes an entry on the shadow stack so.
                    let own = |to: &u64| self.parts.iter().any(|p| p.holds(*to));
                    if let Some(to) = call_target(&i).filter(own) {
                        self.branch(at, to);
                    }
                }
                FlowControl::IndirectCall => {
                    self.targets.insert(i.next_ip());
                }
                _ => {}
            }
            if ends(&i) && !stub || self.last_calls.contains(&at) {
                return;
            }
            at = i.next_ip();
            self.ways.entry(at).or_default().push(i.ip());
            // Behind its last call, or in the linker's stubs, a function may end; else control runs into the next one.
            let may = stub || may_end(&i);
            if at >= part.f.end && (at >= part.limit || may) {
                let next = at == part.f.end && self.text.functions.begins(at);
                if !(may || next) {
                    self.doubt(i.ip(), "control leaves the function");
                }
                return;
            }
        }
    }

    pub fn branch(&mut self, from: u64, to: u64) {
        if !self.text.holds(to) {
            return self.doubt(from, "a branch out of the text");
        }
        self.targets.insert(to);
        self.ways.entry(to).or_default().push(from);
        if !self.parts.iter().any(|p| p.holds(to)) {
            // Into another function, not to its start: that is a part of this one.
            let other = self.text.functions.around(to, to + 1).next();
            match other {
                Some(g) if g.start != to && self.parts.len() < PARTS => self.add(Part::whole(g)),
                _ => return,
            }
        }
        self.todo.push(to);
    }

    /// The first two instructions that overlap.
    fn overlap(&self) -> Option<(Instruction, Instruction)> {
        let mut last: Option<&Instruction> = None;
        for i in self.insns.values() {
            if let Some(l) = last.filter(|l| l.next_ip() > i.ip())
                && !skips_prefix(self.text, &self.insns, i)
            {
                return Some((*l, *i));
            }
            last = Some(i);
        }
        None
    }

    /// The call behind which, by all that is known, no instruction stands: what would stand there overlaps with one that a
    /// branch leads to.
    fn last_call(&self) -> Option<u64> {
        let (first, second) = self.overlap()?;
        let mut at = first.ip();
        while self.targets.contains(&second.ip()) && second.ip() - at < FILLER {
            let before = self.insns.range(..at).next_back()?.1;
            if before.next_ip() != at {
                return None;
            }
            if is_call(before) {
                let more = self.last_calls.len() < LAST_CALLS;
                // One that is known not to come back did not lead here.
                let new = !self.last_calls.contains(&before.ip());
                return (more && new).then(|| before.ip());
            }
            // A branch leads there.
            if self.targets.contains(&at) {
                return None;
            }
            at = before.ip();
        }
        None
    }

    /// Follows `parts` anew: the call at `call` does not come back.
    fn start_again(&mut self, call: u64, parts: &[Part]) {
        self.last_calls.insert(call);
        self.parts.clear();
        self.roots.clear();
        self.insns.clear();
        self.ways.clear();
        self.targets.clear();
        self.tables.clear();
        self.doubt = None;
        self.contradicts = false;
        for p in parts {
            self.add(*p);
        }
        self.run();
    }

    /// Reads what nothing leads to as code, from where the instruction before it ends. What it leads to, and where it
    /// ends, must agree with what is known.
    fn fill_gaps(&mut self) {
        for _ in 0..ROUNDS {
            let mut gaps = self.gaps();
            gaps.retain(|&(from, to)| !self.text.is_padding(from, to));
            if gaps.is_empty() || self.contradicts {
                return;
            }
            for (from, to) in gaps {
                let at = (from..to).find(|&at| self.text.byte(at) != TRAP);
                self.todo.extend(at);
            }
            self.run();
        }
    }

    /// The bytes of the function that nothing leads to.
    fn gaps(&self) -> Vec<(u64, u64)> {
        let mut gaps = Vec::new();
        for p in &self.parts {
            let mut at = p.f.start;
            let mut filler = false;
            for i in self.insns.range(p.f.start..p.limit).map(|(_, i)| i) {
                if i.ip() > at && !(filler && i.ip() - at < FILLER) {
                    gaps.push((at, i.ip()));
                }
                at = at.max(i.next_ip());
                filler = self.last_calls.contains(&i.ip());
            }
            gaps.push((at, p.f.end.max(at)));
        }
        gaps
    }

    /// Whether the flow is whole.
    fn check(&mut self) {
        if let Some((_, second)) = self.overlap() {
            self.doubt(second.ip(), "instructions that overlap");
        }
        for (from, to) in self.gaps() {
            if !self.text.is_padding(from, to) {
                self.is_part(from, "bytes that nothing leads to");
            }
        }
    }
}

/// `jz 1f; lock; 1: cmpxchg`: the way without the prefix arrives one byte behind the instruction's start.
fn skips_prefix(text: &Text, insns: &BTreeMap<u64, Instruction>, i: &Instruction) -> bool {
    i.ip() > text.low
        && text.byte(i.ip() - 1) == 0xf0
        && insns
            .get(&(i.ip() - 1))
            .is_some_and(|locked| locked.next_ip() == i.next_ip())
}
