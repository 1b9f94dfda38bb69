//! Indirect jumps: where a jump leads that goes by a table, and whether one goes by none.
//!
//! Invariant: a table is believed only if it is the one table that the jump can go by; it ends where the function says, where
//! other data begins, or where a word leads elsewhere. A table that is believed wrongly makes the flow not whole.
//! Not here: what is done with the ways (flow.rs).
use super::flow::Walk;
use super::headers::bytes_at;
use super::instruction::{branch_target, ends};
use iced_x86::{
    Code, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};
use std::collections::{BTreeSet, HashSet};

/// Registers that a call leaves as they were (System V AMD64 ABI, 3.2.1).
const CALLEE_SAVED: [Register; 6] = [
    Register::RBX,
    Register::RBP,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];
/// A table has at most this many entries.
const TABLE: u64 = 4096;

impl Walk<'_> {
    /// An indirect jump: by a table, or to another function.
    pub fn indirect(&mut self, at: u64) {
        let before = self.block_before(at);
        let jump = self.insns[&at];
        let table = Load::of(&jump, &before)
            .and_then(|load| self.table(&load, limit_of(&before, at)))
            .or_else(|| self.labels(&jump));
        if let Some(entries) = table {
            for &to in &entries {
                self.branch(at, to);
            }
            self.tables.insert(at, entries);
        } else if !leads_elsewhere(&jump, &before) {
            self.is_part(at, "a jump of unknown ways");
        }
    }

    /// The addresses of the text that the register of `jump` was loaded with.
    fn labels(&self, jump: &Instruction) -> Option<Vec<u64>> {
        let register = (jump.op0_kind() == OpKind::Register).then(|| jump.op0_register())?;
        let labels = self.bases(register, jump.ip());
        (!labels.is_empty()).then_some(labels)
    }

    /// The instructions before `at` that lead straight to it, the nearest first; through one-way ways in as well.
    fn block_before(&self, at: u64) -> Vec<Instruction> {
        let mut v: Vec<Instruction> = Vec::new();
        let mut at = at;
        while v.len() < 40 {
            let near = self.insns.range(..at).next_back().map(|(_, i)| *i);
            match near {
                Some(i) if i.next_ip() == at && !ends(&i) => v.push(i),
                _ => match self.only_branch_to(at) {
                    Some(i) => v.push(i),
                    None => break,
                },
            }
            at = v[v.len() - 1].ip();
        }
        v
    }

    /// The one branch that leads to `at`.
    fn only_branch_to(&self, at: u64) -> Option<Instruction> {
        match self.ways.get(&at)?[..] {
            [from] => Some(self.insns[&from]).filter(|i| branch_target(i) == Some(at)),
            _ => None,
        }
    }

    /// Where a jump leads by the table that `load` reads. `limit`: how many entries the function lets through.
    fn table(&self, load: &Load, limit: Option<u64>) -> Option<Vec<u64>> {
        let starts = self.addresses(&load.start);
        let origins = load.origin.as_ref().map(|o| self.addresses(o));
        // A distance counts from the table's start, or from a label.
        let label = match origins.as_deref() {
            Some(&[label]) if starts != [label] => Some(label),
            _ => None,
        };
        let place = |start: u64| (start, label.unwrap_or(start));
        let starts = starts.into_iter().map(place);
        self.one_table(starts, load.size, limit)
            // The register was spilled to memory meanwhile.
            .or_else(|| self.one_table(self.taken().map(place), load.size, limit))
    }

    /// The one table at these starts, from whose origins distances count; none if there are two, for that would be a guess.
    fn one_table(
        &self,
        places: impl Iterator<Item = (u64, u64)>,
        size: u64,
        limit: Option<u64>,
    ) -> Option<Vec<u64>> {
        let mut tables = places
            .map(|(start, origin)| self.entries(size, start, origin, limit))
            .filter(|t| !t.is_empty());
        let table = tables.next()?;
        tables.next().is_none().then_some(table)
    }

    fn addresses(&self, place: &Place) -> Vec<u64> {
        match *place {
            Place::At(address) => vec![address],
            Place::In(register, at) => self.bases(register, at),
        }
    }

    /// The addresses outside the text that the function takes.
    fn taken(&self) -> impl Iterator<Item = u64> {
        let takes = self
            .insns
            .values()
            .filter(|i| i.code() == Code::Lea_r64_m && i.is_ip_rel_memory_operand());
        let all: BTreeSet<u64> = takes
            .map(Instruction::ip_rel_memory_address)
            .filter(|&a| !self.text.holds(a))
            .collect();
        all.into_iter()
    }

    /// The entries of the table at `start`, which ends where `limit` says, where other data begins, or where a word leads
    /// elsewhere.
    fn entries(&self, size: u64, start: u64, origin: u64, limit: Option<u64>) -> Vec<u64> {
        let words = bytes_at(self.text.file, self.text.bytes, start).unwrap_or(&[]);
        let taken = self.text.taken();
        let next = taken.get(taken.partition_point(|&a| a <= start));
        let room = next.map_or(u64::MAX, |&a| (a - start) / size);
        let most = limit.unwrap_or(TABLE).min(room);
        let entry = |k: u64, w: &[u8]| match w.try_into() {
            Ok(distance) => origin.wrapping_add_signed(i32::from_le_bytes(distance).into()),
            Err(_) => self.text.pointer(start + k * size, w),
        };
        let leads_in = |to: &u64| self.parts.iter().any(|p| p.holds(*to));
        let somewhere = |to: &u64| self.text.functions.around(*to, to + 1).next().is_some();
        words
            .chunks_exact(size as usize)
            .zip(0..most)
            .map(|(w, k)| entry(k, w))
            .take_while(|to| leads_in(to) || limit.is_some() && somewhere(to))
            .collect()
    }

    /// The addresses that `register` may hold before the instruction at `at`. Ways on which it holds something else are
    /// left out: most of them lead over a call that does not come back.
    fn bases(&self, register: Register, at: u64) -> Vec<u64> {
        let mut info = InstructionInfoFactory::new();
        let (mut found, mut seen) = (BTreeSet::new(), HashSet::new());
        let mut todo = vec![(at, register)];
        while let Some((at, register)) = todo.pop() {
            for &from in self.ways.get(&at).into_iter().flatten() {
                if !seen.insert((from, register)) {
                    continue;
                }
                let i = &self.insns[&from];
                let clobbered = matches!(
                    i.flow_control(),
                    FlowControl::Call | FlowControl::IndirectCall
                ) && !CALLEE_SAVED.contains(&register);
                let writes = info.info(i).used_registers().iter().any(|r| {
                    r.register().full_register() == register
                        && !matches!(r.access(), OpAccess::Read | OpAccess::CondRead)
                });
                if !writes && !clobbered {
                    todo.push((from, register));
                } else if i.code() == Code::Lea_r64_m && i.is_ip_rel_memory_operand() {
                    found.insert(i.ip_rel_memory_address());
                } else if i.code() == Code::Mov_r64_rm64 && i.op1_kind() == OpKind::Register {
                    todo.push((from, i.op1_register()));
                }
            }
        }
        found.into_iter().collect()
    }
}

/// How a jump's address comes out of a table.
struct Load {
    /// Bytes of an entry: of 4 it is a distance, of 8 an address.
    size: u64,
    start: Place,
    /// From where distances count.
    origin: Option<Place>,
}

/// Where something is.
enum Place {
    At(u64),
    /// What this register holds before the instruction at that address.
    In(Register, u64),
}

impl Load {
    /// The load that `jump` goes by, if the instructions before it are one.
    fn of(jump: &Instruction, before: &[Instruction]) -> Option<Load> {
        if jump.op0_kind() == OpKind::Memory {
            return Load::of_pointer(jump);
        }
        let (mut to, mut other) = (jump.op0_register(), None);
        for i in before.iter().take(24) {
            if i.op_count() < 1 || i.op0_kind() != OpKind::Register {
                continue;
            }
            let written = i.op0_register().full_register();
            let (is_to, is_other) = (written == to, other.is_some_and(|(r, _)| r == written));
            match i.code() {
                // The entry is in one of two, the origin in the other: the one that comes out of a table tells.
                Code::Add_r64_rm64 | Code::Add_rm64_r64
                    if is_to && other.is_none() && i.op1_kind() == OpKind::Register =>
                {
                    other = Some((i.op1_register(), i.ip()));
                }
                Code::Lea_r64_m
                    if is_to
                        && other.is_none()
                        && i.memory_index_scale() == 1
                        && i.memory_index() != Register::None
                        && i.memory_displacement64() == 0 =>
                {
                    other = Some((i.memory_base(), i.ip()));
                    to = i.memory_index();
                }
                Code::Movsxd_r64_rm32 | Code::Mov_r32_rm32 if i.op1_kind() == OpKind::Memory => {
                    let (register, at) = other?;
                    return match (is_to, is_other) {
                        (true, _) => Some(Load::of_distance(i, register, at)),
                        (_, true) => Some(Load::of_distance(i, to, at)),
                        _ => continue,
                    };
                }
                Code::Mov_r64_rm64 if is_to && i.op1_kind() == OpKind::Memory => {
                    return if other.is_none() {
                        Load::of_pointer(i)
                    } else {
                        None
                    };
                }
                Code::Mov_r64_rm64 if is_to && i.op1_kind() == OpKind::Register => {
                    to = i.op1_register();
                }
                _ => {}
            }
        }
        None
    }

    /// `i` reads a table of distances from what `register` holds at `at`.
    fn of_distance(i: &Instruction, register: Register, at: u64) -> Load {
        let indexed = i.memory_index() != Register::None && i.memory_index_scale() == 4;
        Load {
            size: 4,
            // Without a scaled index it is not said which register holds the start: then the origin does, too.
            start: if indexed {
                Place::In(i.memory_base(), i.ip())
            } else {
                Place::In(register, at)
            },
            origin: Some(Place::In(register, at)),
        }
    }

    /// `i` reads a table of addresses.
    fn of_pointer(i: &Instruction) -> Option<Load> {
        let indexed = i.memory_index() != Register::None && i.memory_index_scale() == 8;
        indexed.then(|| Load {
            size: 8,
            start: match i.memory_base() {
                Register::None => Place::At(i.memory_displacement64()),
                register => Place::In(register, i.ip()),
            },
            origin: None,
        })
    }
}

/// How many entries the comparison before a table's jump at `jump` lets through: that of the nearest branch.
fn limit_of(before: &[Instruction], jump: u64) -> Option<u64> {
    let conditional = |i: &Instruction| i.flow_control() == FlowControl::ConditionalBranch;
    let k = before.iter().position(conditional)?;
    let next = k.checked_sub(1).map_or(jump, |k| before[k].ip());
    let goes_on = before[k].next_ip() == next;
    let more = match before[k].mnemonic() {
        Mnemonic::Ja if goes_on => 1,
        Mnemonic::Jbe if !goes_on => 1,
        Mnemonic::Jae if goes_on => 0,
        Mnemonic::Jb if !goes_on => 0,
        _ => return None,
    };
    let compare = before[k..].iter().find(|i| i.mnemonic() == Mnemonic::Cmp)?;
    immediate(compare).ok()?.checked_add(more)
}

fn immediate(i: &Instruction) -> Result<u64, ()> {
    match i.op1_kind() {
        OpKind::Immediate8
        | OpKind::Immediate16
        | OpKind::Immediate32
        | OpKind::Immediate8to16
        | OpKind::Immediate8to32
        | OpKind::Immediate8to64
        | OpKind::Immediate32to64 => Ok(i.immediate(1)),
        _ => Err(()),
    }
}

/// Whether an indirect jump that goes by no table is the call of another function: by a pointer, as the last act.
fn leads_elsewhere(jump: &Instruction, before: &[Instruction]) -> bool {
    if jump.op0_kind() == OpKind::Memory {
        return jump.memory_index() == Register::None;
    }
    let mut to = jump.op0_register();
    for i in before {
        if i.op0_register().full_register() != to || i.op0_kind() != OpKind::Register {
            continue;
        }
        match i.mnemonic() {
            Mnemonic::Mov if i.op1_kind() == OpKind::Register => {
                to = i.op1_register().full_register();
            }
            Mnemonic::Mov => return i.memory_index() == Register::None,
            Mnemonic::Pop | Mnemonic::Cmove | Mnemonic::Cmovne => return true,
            // How the C library keeps pointers that an attacker would like to know.
            Mnemonic::Ror | Mnemonic::Rol | Mnemonic::Xor => {}
            // It only looks at the register.
            Mnemonic::Test | Mnemonic::Cmp | Mnemonic::Push => {}
            _ => return false,
        }
    }
    // The pointer came with the function's arguments, or from a call.
    true
}
