//! Finds glibc's cancellation bridge (2.41 and later): the one function in which a cancellable call may sleep.
//!
//! ```text
//! bridge(pending, number, a1 .. a4, on the stack: a5, a6)
//!   start: if cancellation is pending, act     the handler of SIGCANCEL acts if and only if the
//!          registers as the kernel wants them  interrupted instruction lies between start and end
//!          syscall
//!   end:   ret
//! ```
//! Invariant: the bridge itself stays byte for byte as it is, or a cancellation could fall between its check and its
//! call; what is redirected are the direct calls to it. (Its address is taken too, by the handler, to compare.)
//! Not here: what happens to the redirected calls (the preload library's entry).
use iced_x86::{Code, FlowControl, Instruction, Mnemonic, Register};

/// The bridge, and the call and jump instructions that lead to it.
pub struct Bridge {
    pub start: u64,
    /// The bits of its first argument that say that cancellation is pending.
    pub pending: u8,
    pub calls: Vec<Instruction>,
}

/// The bridge whose call is the syscall at index `k` of a function, if it is one: its start and `pending`.
///
/// # Errors
/// It ends as the bridge does, but begins otherwise: an unknown glibc.
pub fn find(insns: &[Instruction], k: usize) -> Result<Option<(u64, u8)>, String> {
    use Register::{EAX, R8, R9, R10, R11, RAX, RCX, RDI, RDX, RSI, RSP};
    let stack = |i: &Instruction, at: u64| {
        i.code() == Code::Mov_r64_rm64 && i.memory_base() == RSP && i.memory_displacement64() == at
    };
    // Nobody else keeps the first argument in its caller's frame over a call.
    let keeps = |i: &Instruction| {
        i.code() == Code::Mov_rm64_r64
            && i.memory_base() == RSP
            && i.memory_displacement64() == 8
            && i.op1_register() == R11
    };
    if k == 0 || !keeps(&insns[k - 1]) {
        return Ok(None);
    }
    let head = usize::from(insns[0].code() == Code::Endbr64);
    let body = &insns[head..k];
    let checks = body[0].code() == Code::Mov_r32_rm32
        && body[0].op0_register() == EAX
        && body[0].memory_base() == RDI
        && body[0].memory_displacement64() == 0
        && body
            .iter()
            .filter(|i| i.flow_control() != FlowControl::Next)
            .count()
            == 1;
    let shuffles = [
        (R11, RDI),
        (RAX, RSI),
        (RDI, RDX),
        (RSI, RCX),
        (RDX, R8),
        (R10, R9),
    ]
    .iter()
    .all(|&(to, from)| {
        body.iter().any(|i| {
            i.mnemonic() == Mnemonic::Mov && i.op0_register() == to && i.op1_register() == from
        })
    }) && [(R8, 8), (R9, 16)]
        .iter()
        .all(|&(to, at)| body.iter().any(|i| stack(i, at) && i.op0_register() == to));
    let pending = match body[1].code() {
        Code::Test_rm8_imm8 | Code::Test_AL_imm8 => body[1].immediate8(),
        _ => 0,
    };
    let returns = insns.get(k + 1).is_some_and(|i| i.code() == Code::Retnq);
    if checks && pending != 0 && shuffles && returns && body.len() == 12 {
        Ok(Some((insns[0].ip(), pending)))
    } else {
        Err(format!(
            "the cancellation bridge at {:#x} is of an unknown shape",
            insns[0].ip()
        ))
    }
}

/// The bridge at `start`, to which `calls` lead.
///
/// # Errors
/// A sentence that says why it cannot be redirected.
pub fn reach(start: u64, pending: u8, calls: Vec<Instruction>) -> Result<Bridge, String> {
    let long = |i: &&Instruction| !matches!(i.code(), Code::Call_rel32_64 | Code::Jmp_rel32_64);
    if let Some(i) = calls.iter().find(long) {
        return Err(format!(
            "the cancellation bridge is entered by a short jump at {:#x}",
            i.ip()
        ));
    }
    if calls.is_empty() {
        return Err(format!(
            "nothing is seen to call the cancellation bridge at {start:#x}"
        ));
    }
    Ok(Bridge {
        start,
        pending,
        calls,
    })
}
