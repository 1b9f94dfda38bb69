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

#[cfg(test)]
mod tests {
    use super::Numbers;
    use iced_x86::{Decoder, DecoderOptions, Instruction};

    /// What is left in eax by the instructions in `code`.
    fn after(code: &[u8]) -> Numbers {
        let line: Vec<Instruction> = Decoder::with_ip(64, code, 0, DecoderOptions::NONE)
            .iter()
            .collect();
        assert!(line.iter().all(|i| !i.is_invalid()));
        Numbers::after(&line)
    }

    #[test]
    fn constants_are_known() {
        for (code, n) in [
            (&[0xb8, 1, 0, 0, 0][..], 1),             // mov eax, 1
            (&[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0], 15), // mov rax, 15
            (&[0x31, 0xc0], 0),                       // xor eax, eax
            (&[0xb8, 9, 0, 0, 0, 0x31, 0xff], 9),     // then xor edi, edi
            (&[0x89, 0xf8, 0xb8, 60, 0, 0, 0], 60),   // mov eax, edi first
        ] {
            let numbers = after(code);
            assert!(!numbers.unset && !numbers.computed, "{code:x?}");
            assert_eq!(numbers.known, [n], "{code:x?}");
        }
    }

    #[test]
    fn what_a_register_or_memory_gives_is_computed() {
        for code in [
            &[0x44, 0x89, 0xe0][..],               // mov eax, r12d
            &[0x48, 0x8b, 0x44, 0x24, 8],          // mov rax, [rsp + 8]
            &[0xb8, 1, 0, 0, 0, 0x83, 0xc0, 2],    // mov eax, 1; add eax, 2
            &[0x31, 0xc0, 0xb0, 59],               // xor eax, eax; mov al, 59
            &[0xb8, 1, 0, 0, 0, 0x0f, 0x44, 0xc1], // mov eax, 1; cmove eax, ecx
        ] {
            let numbers = after(code);
            assert!(!numbers.unset && numbers.computed, "{code:x?}");
        }
    }

    #[test]
    fn nothing_and_what_a_call_leaves_is_no_number() {
        for code in [
            &[0x90][..],                           // nop
            &[0xb8, 1, 0, 0, 0, 0xe8, 0, 0, 0, 0], // mov eax, 1; call
            &[0xb8, 1, 0, 0, 0, 0x0f, 0x05],       // mov eax, 1; syscall
            &[0xb0, 59],                           // mov al, 59
            &[0x83, 0xc0, 2],                      // add eax, 2
            &[0x0f, 0x44, 0xc1],                   // cmove eax, ecx
            &[0xf0, 0x0f, 0xb1, 0x0f],             // lock cmpxchg [rdi], ecx
            &[0x0f, 0xa2],                         // cpuid
        ] {
            assert!(after(code).unset, "{code:x?}");
        }
    }
}
