//! What is asked of one instruction: whether a program has it at all, and where control goes from it.
//!
//! Invariant: nothing here looks at more than the instruction itself.
//! Not here: the flow of a function (flow.rs), tables (table.rs).
use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind, Register};

/// Whether control never goes on behind `i`.
pub fn ends(i: &Instruction) -> bool {
    matches!(
        i.flow_control(),
        FlowControl::Return
            | FlowControl::UnconditionalBranch
            | FlowControl::IndirectBranch
            | FlowControl::Exception
    ) || i.mnemonic() == Mnemonic::Int3
}

/// Whether control comes back behind `i`, if at all: a call, of a function or of the kernel.
pub fn is_call(i: &Instruction) -> bool {
    matches!(
        i.flow_control(),
        FlowControl::Call | FlowControl::IndirectCall
    )
}

/// Whether control may end with `i`, as far as can be seen: it need not come back from a call.
pub fn may_end(i: &Instruction) -> bool {
    is_call(i) || i.mnemonic() == Mnemonic::Hlt
}

/// Where a direct branch leads; a call comes back.
pub fn branch_target(i: &Instruction) -> Option<u64> {
    match i.flow_control() {
        FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => {
            Some(i.near_branch_target())
        }
        FlowControl::XbeginXabortXend if i.mnemonic() == Mnemonic::Xbegin => {
            Some(i.near_branch_target())
        }
        _ => None,
    }
}

/// Where a direct call leads.
pub fn call_target(i: &Instruction) -> Option<u64> {
    (i.flow_control() == FlowControl::Call && i.op0_kind() == OpKind::NearBranch64)
        .then(|| i.near_branch_target())
}

/// Whether an ordinary program has `i` at all. Data that is taken for code soon shows one that it has not.
pub fn is_ordinary(i: &Instruction) -> bool {
    if i.is_invalid() {
        return false;
    }
    let far = matches!(i.op0_kind(), OpKind::FarBranch16 | OpKind::FarBranch32)
        || matches!(
            i.mnemonic(),
            Mnemonic::Retf | Mnemonic::Iret | Mnemonic::Iretd | Mnemonic::Iretq
        );
    !far && (!i.is_privileged() || i.mnemonic() == Mnemonic::Hlt)
}

/// Whether assemblers and compilers fill with `i`.
pub fn is_filler(i: &Instruction) -> bool {
    matches!(i.mnemonic(), Mnemonic::Nop | Mnemonic::Int3 | Mnemonic::Ud2) || is_empty_move(i)
}

/// `xchg ax, ax`, `lea 0(rsi), rsi` and the like, with which older assemblers fill.
fn is_empty_move(i: &Instruction) -> bool {
    let to = i.op0_register();
    match i.mnemonic() {
        Mnemonic::Mov | Mnemonic::Xchg => to != Register::None && to == i.op1_register(),
        Mnemonic::Lea => {
            i.memory_base() == to
                && i.memory_displacement64() == 0
                && i.memory_index() == Register::None
        }
        _ => false,
    }
}
