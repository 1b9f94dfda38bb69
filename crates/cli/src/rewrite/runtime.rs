//! Objects that make code at run time, of which it is known that this code makes no system call by itself.
//!
//! Invariant: an object is one of these only by a function that it exports itself. Code of anybody else counts as code that
//! may make system calls.
//! Not here: what becomes of a process that makes code (the preload library, later.rs).
use super::headers::Elf;
use byway_sys::cached::flag;
use object::{Object, ObjectSymbol};

/// Each runtime by a function that it exports. Their code generators have no instruction for a system call: what they make
/// calls functions of the runtime, which call libc (ADR 24).
const RUNTIMES: [&str; 9] = [
    // HotSpot: the JVM.
    "JNI_CreateJavaVM",
    // V8: node.
    "_ZN2v87Isolate10InitializeEPS0_RKNS0_12CreateParamsE",
    // PCRE2, in its three widths of characters: grep, git.
    "pcre2_jit_compile_8",
    "pcre2_jit_compile_16",
    "pcre2_jit_compile_32",
    // LuaJIT: sysbench, wrk, nginx with Lua.
    "luaJIT_setmode",
    // Ruby: YJIT, and what MJIT opens are libraries.
    "ruby_run_node",
    "pypy_execute_source",
    // PostgreSQL: LLVM, which compiles what the server's C code would do.
    "_PG_jit_provider_init",
];

/// `MAKES_CODE` if `file` is such a runtime.
pub fn flags(file: &Elf) -> u64 {
    let is_one = file
        .dynamic_symbols()
        .any(|s| s.is_definition() && s.name().is_ok_and(|n| RUNTIMES.contains(&n)));
    if is_one { flag::MAKES_CODE } else { 0 }
}
