//! What an object would be as a program: whether it may start behind the preload library, and whether it is self-contained.
//!
//! Invariant: a self-contained program comes by no pipe or FIFO but those that it is started with, and starts no other
//! program. A mistake costs speed alone: such a program leaves its pipes to the kernel.
//! Not here: what becomes of one (the preload library, environment.rs). Source: elf(5).
use super::headers::{Elf, needed};
use byway_sys::cached::flag;
use object::{Object, ObjectSymbol};

/// Functions of libc by which a program opens what has a name, makes a pipe, gets a descriptor, starts a program, or finds
/// such a function: how their names begin, behind underscores.
const REACHES_OUT: [&str; 26] = [
    "Fork",
    "clone",
    "creat",
    "daemon",
    "dl",
    "exec",
    "fexec",
    "fopen",
    "fork",
    "freopen",
    "io_",
    "mkfifo",
    "mknod",
    "open",
    "pidfd",
    "pipe",
    "popen",
    "posix_spawn",
    "recvm",
    "shm_open",
    "socket",
    "syscall",
    "system",
    "vfork",
    "wordexp",
    "xmknod",
];

/// What is known of `file`, whose bytes are `bytes`, as a program.
pub fn flags(file: &Elf, bytes: &[u8]) -> u64 {
    let needed = needed(file, bytes);
    // AddressSanitizer's runtime ends a program in which it is not the first of all libraries.
    let is_sanitized =
        |n: &String| n.starts_with("libasan.so") || n.starts_with("libclang_rt.asan");
    if needed.first().is_some_and(is_sanitized) {
        return 0;
    }
    let reaches_out = |name: &str| {
        let name = name.trim_start_matches('_');
        REACHES_OUT.iter().any(|f| name.starts_with(f))
    };
    let mut undefined = file.dynamic_symbols().filter(ObjectSymbol::is_undefined);
    let contained =
        needed == ["libc.so.6"] && !undefined.any(|s| s.name().map_or(true, reaches_out));
    match contained {
        true => flag::PRELOADS | flag::SELF_CONTAINED,
        false => flag::PRELOADS,
    }
}
