//! Whether a call that sets who the process is, or what it may call, changes anything for its channels.
//!
//! Invariant: "nothing" is said only if the ids and the filter are the same afterwards; on doubt something changes.
//! Not here: what becomes of the channels then (give_up.rs).
use crate::access;
use byway_sys::process;
use byway_sys::syscall::nr;

/// Whether call `n` with the arguments `args` may change something. Only for calls that set ids or filters.
pub fn changes(n: usize, args: [usize; 6]) -> bool {
    let [a0, a1, a2, ..] = args;
    // LINUX an unsigned int, and an int.
    let what = a0 as u32 as usize;
    match n {
        nr::SETUID | nr::SETREUID | nr::SETRESUID | nr::SETFSUID => {
            !is_already(n, args, process::user_ids())
        }
        nr::SETGID | nr::SETREGID | nr::SETRESGID | nr::SETFSGID => {
            !is_already(n, args, process::group_ids())
        }
        nr::SECCOMP => filters(
            what == SECCOMP_SET_MODE_STRICT,
            what == SECCOMP_SET_MODE_FILTER,
            a2,
        ),
        nr::PRCTL => match what {
            PR_SET_SECCOMP => filters(a1 == SECCOMP_MODE_STRICT, a1 == SECCOMP_MODE_FILTER, a2),
            PR_SET_TSC => a1 != PR_TSC_ENABLE,
            _ => false,
        },
        _ => true,
    }
}

/// LINUX seccomp(2), prctl(2): the other operations ask, or are refused.
const SECCOMP_SET_MODE_STRICT: usize = 0;
const SECCOMP_SET_MODE_FILTER: usize = 1;
const SECCOMP_MODE_STRICT: usize = 1;
const SECCOMP_MODE_FILTER: usize = 2;
const PR_SET_SECCOMP: usize = 22;
const PR_SET_TSC: usize = 26;
const PR_TSC_ENABLE: usize = 1;

/// LINUX seccomp(2): a program at an address that cannot be read is refused (EFAULT): so libraries ask whether there
/// are filters.
fn filters(strict: bool, filter: bool, program: usize) -> bool {
    strict || filter && access::allowed(program, 16, false)
}

/// Whether the real, effective and saved id are `ids` after the call too.
///
/// LINUX setfsuid(2): the id for files is the effective one until a process sets it; one that does resigns.
fn is_already(n: usize, args: [usize; 6], ids: [u32; 3]) -> bool {
    let [real, effective, saved] = ids;
    let [a0, a1, a2] = [args[0] as u32, args[1] as u32, args[2] as u32];
    let kept = |id: u32, now: u32| id == u32::MAX || id == now;
    match n {
        nr::SETUID | nr::SETGID => ids == [a0; 3],
        // The saved id follows the effective one.
        nr::SETREUID | nr::SETREGID => kept(a0, real) && kept(a1, effective) && saved == effective,
        nr::SETRESUID | nr::SETRESGID => kept(a0, real) && kept(a1, effective) && kept(a2, saved),
        _ => kept(a0, effective),
    }
}
