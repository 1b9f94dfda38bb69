//! Which number a system call is made with: what the ways to it leave in eax.
//!
//! Invariant: a number counts as set only if every way from the function's start sets eax by an instruction of its own. What
//! a function finds in eax when it begins, or what a call leaves there, is no number.
//! Not here: which numbers matter (scan.rs).
use super::flow::Flow;
use iced_x86::{
    Code, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};
use std::collections::HashMap;

/// What eax may hold.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Some way leaves it unset.
    pub unset: bool,
    /// Some way sets it to what only the run knows.
    pub computed: bool,
    pub known: Vec<u64>,
}

/// More different numbers than this at one call count as computed.
const MOST: usize = 8;

impl Numbers {
    fn unset() -> Numbers {
        Numbers {
            unset: true,
            ..Numbers::default()
        }
    }

    fn computed() -> Numbers {
        Numbers {
            computed: true,
            ..Numbers::default()
        }
    }

    fn known(n: u64) -> Numbers {
        Numbers {
            known: vec![n],
            ..Numbers::default()
        }
    }

    /// Adds what another way brings; true if that is new.
    fn join(&mut self, other: &Numbers) -> bool {
        let old = self.clone();
        self.unset |= other.unset;
        self.computed |= other.computed;
        for n in &other.known {
            if !self.known.contains(n) {
                self.known.push(*n);
            }
        }
        if self.known.len() > MOST {
            self.known.clear();
            self.computed = true;
        }
        *self != old
    }

    /// What a line of instructions leaves, that finds eax unset.
    pub fn after(line: &[Instruction]) -> Numbers {
        let mut info = InstructionInfoFactory::new();
        line.iter()
            .fold(Numbers::unset(), |n, i| step(i, &n, &mut info))
    }

    /// What reaches the call at `at` in `flow`.
    pub fn at(flow: &Flow, at: u64) -> Numbers {
        let mut info = InstructionInfoFactory::new();
        let mut todo = flow.roots.clone();
        let mut states: HashMap<u64, Numbers> =
            todo.iter().map(|&a| (a, Numbers::unset())).collect();
        while let Some(a) = todo.pop() {
            let Some(k) = flow.index(a) else { continue };
            let i = &flow.insns[k];
            let out = step(i, &states[&a], &mut info);
            for to in flow.after(i) {
                if states.entry(to).or_default().join(&out) {
                    todo.push(to);
                }
            }
        }
        states.remove(&at).unwrap_or_else(Numbers::unset)
    }
}

/// eax after `i`.
fn step(i: &Instruction, before: &Numbers, info: &mut InstructionInfoFactory) -> Numbers {
    if matches!(
        i.flow_control(),
        FlowControl::Call | FlowControl::IndirectCall
    ) {
        return Numbers::unset();
    }
    let (mut writes, mut perhaps) = (false, false);
    for r in info.info(i).used_registers() {
        if r.register().full_register() == Register::RAX {
            writes |= matches!(r.access(), OpAccess::Write | OpAccess::ReadWrite);
            perhaps |= matches!(r.access(), OpAccess::CondWrite | OpAccess::ReadCondWrite);
        }
    }
    if !writes && !perhaps {
        return before.clone();
    }
    let whole = matches!(i.op0_register(), Register::EAX | Register::RAX);
    let same = i.op1_kind() == OpKind::Register && i.op0_register() == i.op1_register();
    let mut after = match i.code() {
        Code::Mov_r32_imm32 | Code::Mov_rm32_imm32 if whole => {
            Numbers::known(u64::from(i.immediate32()))
        }
        Code::Mov_rm64_imm32 | Code::Mov_r64_imm64 if whole => Numbers::known(i.immediate(1)),
        _ => match i.mnemonic() {
            Mnemonic::Xor | Mnemonic::Sub if whole && same => Numbers::known(0),
            Mnemonic::Mov
            | Mnemonic::Movzx
            | Mnemonic::Movsx
            | Mnemonic::Movsxd
            | Mnemonic::Movd
            | Mnemonic::Movq
            | Mnemonic::Lea
            | Mnemonic::Pop
                if whole =>
            {
                Numbers::computed()
            }
            m if cmov(m) && whole => Numbers::computed(),
            // What is made of a number is a number; what is made of nothing is nothing.
            Mnemonic::Add
            | Mnemonic::Sub
            | Mnemonic::And
            | Mnemonic::Or
            | Mnemonic::Xor
            | Mnemonic::Neg
            | Mnemonic::Not
            | Mnemonic::Shl
            | Mnemonic::Shr
            | Mnemonic::Sar
            | Mnemonic::Inc
            | Mnemonic::Dec
            | Mnemonic::Sbb
            | Mnemonic::Adc
            | Mnemonic::Mov
            | Mnemonic::Cdqe
                if !before.unset =>
            {
                Numbers::computed()
            }
            _ => Numbers::unset(),
        },
    };
    if cmov(i.mnemonic()) || !writes {
        after.join(before);
    }
    after
}

fn cmov(m: Mnemonic) -> bool {
    format!("{m:?}").starts_with("Cmov")
}
