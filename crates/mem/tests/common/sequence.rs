//! The restartable sequences as they lie in memory, and signal handlers that see where they interrupted.
//!
//! Not here: what is done to them (sequences.rs, timers.rs).
use byway_sys::rseq;

/// One sequence in memory.
pub struct Sequence {
    pub name: &'static str,
    pub entry: usize,
    pub start: usize,
    pub commit: usize,
    pub abort: usize,
}

pub fn sequences() -> [Sequence; 3] {
    let of = |name, entry: *const (), cs: &rseq::Critical| Sequence {
        name,
        entry: entry as usize,
        start: cs.start as usize,
        commit: (cs.start + cs.length) as usize,
        abort: cs.abort as usize,
    };
    // SAFETY: constants of the program.
    unsafe {
        [
            of(
                "pop",
                rseq::byway_rseq_pop as *const (),
                &rseq::byway_rseq_pop_cs,
            ),
            of(
                "push",
                rseq::byway_rseq_push as *const (),
                &rseq::byway_rseq_push_cs,
            ),
            of(
                "exchange",
                rseq::byway_rseq_exchange as *const (),
                &rseq::byway_rseq_exchange_cs,
            ),
        ]
    }
}

/// False, and says so, where the C library has no restartable sequences; fails where it should have them.
pub fn there_are_sequences() -> bool {
    if rseq::area().is_some() {
        return true;
    }
    // SAFETY: a constant string of the C library.
    let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    let minor: u32 = version
        .to_str()
        .unwrap()
        .split('.')
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    let off = std::env::var("GLIBC_TUNABLES").is_ok_and(|t| t.contains("glibc.pthread.rseq=0"));
    assert!(
        minor < 35 || off,
        "glibc 2.{minor} should have registered an area"
    );
    println!("skipped: glibc 2.{minor}, switched off: {off}");
    false
}

pub fn rip(context: *mut libc::c_void) -> &'static mut i64 {
    // SAFETY: the kernel's ucontext of this handler's call.
    unsafe {
        let c = &mut *context.cast::<libc::ucontext_t>();
        &mut c.uc_mcontext.gregs[libc::REG_RIP as usize]
    }
}

pub fn on(signal: i32, f: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void)) {
    // SAFETY: a handler for the life of this child.
    unsafe {
        let mut a: libc::sigaction = std::mem::zeroed();
        a.sa_sigaction = f as *const () as usize;
        a.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        assert_eq!(libc::sigaction(signal, &a, std::ptr::null_mut()), 0);
    }
}
