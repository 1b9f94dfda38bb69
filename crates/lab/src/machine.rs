//! The machine that a record was made on.
//!
//! Not here: what it allows (`byway doctor`).
use serde::{Deserialize, Serialize};
use std::fs::read_to_string;

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct Machine {
    /// `uname -r`.
    pub kernel: String,
    /// As /proc/cpuinfo names it.
    pub cpu: String,
    /// CPUs that this process may run on.
    pub cpus: usize,
    pub memory_mib: u64,
    pub libc: String,
    /// How CPU frequencies are chosen, if the machine tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
    /// Whether CPUs may run above their nominal frequency, if the machine tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turbo: Option<bool>,
    /// Seconds since 1970-01-01 UTC.
    pub time: u64,
}

/// This machine, now.
pub fn this() -> Machine {
    let field = |file: &str, name: &str| {
        read_to_string(file)
            .unwrap_or_default()
            .lines()
            .find(|l| l.starts_with(name))
            .and_then(|l| l.split_once(':'))
            .map(|(_, v)| v.trim().to_string())
            .unwrap_or_default()
    };
    let memory = field("/proc/meminfo", "MemTotal");
    Machine {
        kernel: read_to_string("/proc/sys/kernel/osrelease")
            .unwrap_or_default()
            .trim()
            .to_string(),
        cpu: field("/proc/cpuinfo", "model name"),
        cpus: std::thread::available_parallelism().map_or(1, |n| n.get()),
        memory_mib: memory
            .split(' ')
            .next()
            .and_then(|k| k.parse::<u64>().ok())
            .unwrap_or(0)
            / 1024,
        libc: libc_version(),
        governor: setting("cpu0/cpufreq/scaling_governor"),
        turbo: setting("intel_pstate/no_turbo")
            .map(|no| no == "0")
            .or(setting("cpufreq/boost").map(|yes| yes == "1")),
        time: std::time::SystemTime::UNIX_EPOCH
            .elapsed()
            .map_or(0, |d| d.as_secs()),
    }
}

/// What the kernel says of its CPUs there.
fn setting(what: &str) -> Option<String> {
    let text = read_to_string(format!("/sys/devices/system/cpu/{what}")).ok()?;
    Some(text.trim().to_string())
}

/// The C library's own name and version.
pub fn libc_version() -> String {
    // SAFETY: returns a constant string of the library.
    let v = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    format!("glibc {}", v.to_string_lossy())
}

/// Whether more than one CPU can be used, so that a one-CPU run is another run.
pub fn many_cpus() -> bool {
    std::thread::available_parallelism().is_ok_and(|n| n.get() > 1)
}

/// CPUs of this process's affinity mask.
pub fn allowed() -> Vec<usize> {
    // SAFETY: the set is ours and of the size given.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set);
        (0..1024).filter(|&c| libc::CPU_ISSET(c, &set)).collect()
    }
}

/// Binds this process to one CPU. Async-signal-safe: for use between fork and exec.
pub fn pin(cpu: usize) {
    bind(&[cpu]);
}

/// Binds this process to some CPUs. Async-signal-safe, as `pin`.
pub fn bind(cpus: &[usize]) {
    // SAFETY: the set is ours and of the size given.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for &c in cpus {
            libc::CPU_SET(c, &mut set);
        }
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}
