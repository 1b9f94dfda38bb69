//! Cases and how they run: each in a process and process group of its own, under a watchdog, in up to three modes.
//!   NAME/cold     the FIFO as it was opened
//!   NAME/process  after 256 KiB in 4 KiB writes from another process
//!   NAME/thread   after the same from another thread
//! Invariant: a case that ends leaves no process behind, and a run no file.
//! Not here: what is checked.
use crate::kernel;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// Who has used the FIFO before the case looks at it: Byway opens a ring only for a FIFO that has traffic.
#[derive(Clone, Copy, PartialEq)]
pub enum Heat {
    Cold,
    Process,
    Thread,
}

pub enum Run {
    Each(fn(Heat)),
    Once(fn()),
}

pub struct Case {
    pub name: &'static str,
    pub run: Run,
}

/// `each`: cases that run in every mode; `once`: cases that make their own traffic.
macro_rules! cases {
    (each: $($each:ident)*; once: $($once:ident)*;) => {
        pub const CASES: &[$crate::check::Case] = &[
            $($crate::check::Case { name: stringify!($each), run: $crate::check::Run::Each($each) },)*
            $($crate::check::Case { name: stringify!($once), run: $crate::check::Run::Once($once) },)*
        ];
    };
}
pub(crate) use cases;

type Fears = [(&'static str, &'static [Case])];

const MODES: [(&str, Heat); 3] = [
    ("cold", Heat::Cold),
    ("process", Heat::Process),
    ("thread", Heat::Thread),
];

/// What a case may take before it counts as hung: far above what any takes.
const WATCHDOG_SECONDS: u32 = 30;

/// Every name with what it runs.
fn names(fears: &'static Fears) -> Vec<(String, Box<dyn Fn()>)> {
    let mut all: Vec<(String, Box<dyn Fn()>)> = Vec::new();
    for (fear, cases) in fears {
        for case in *cases {
            let name = format!("{fear}/{}", case.name);
            match case.run {
                Run::Once(run) => all.push((name, Box::new(run))),
                Run::Each(run) => {
                    for (mode, heat) in MODES {
                        all.push((format!("{name}/{mode}"), Box::new(move || run(heat))));
                    }
                }
            }
        }
    }
    all
}

/// The one case, in this process.
pub fn run_here(fears: &'static Fears, name: &str) {
    kernel::alarm(WATCHDOG_SECONDS);
    let all = names(fears);
    let (_, run) = all.iter().find(|(n, _)| n == name).expect("no such case");
    run();
}

/// All cases whose name begins with `only`, each in a process of its own.
pub fn run_all(fears: &'static Fears, only: &str) -> ExitCode {
    let dir = std::env::temp_dir().join(format!("byway-fifo-rust-{}", std::process::id()));
    if let Err(e) = std::fs::create_dir(&dir) {
        println!("not ok: no folder {} to work in: {e}", dir.display());
        return ExitCode::FAILURE;
    }
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o777)).expect("chmod");
    let (mut ran, mut bad) = (0, 0);
    for (name, _) in names(fears) {
        let mine = name == only || only.is_empty() || name.starts_with(&format!("{only}/"));
        if !mine {
            continue;
        }
        ran += 1;
        match run_apart(&name, &dir) {
            None => println!("ok {name}"),
            Some(why) => {
                println!("not ok {name}: {why}");
                bad += 1;
            }
        }
    }
    std::fs::remove_dir_all(&dir).expect("remove the folder");
    if ran == 0 {
        println!("not ok {only}: no such case");
    }
    ExitCode::from(u8::from(ran == 0 || bad > 0))
}

fn run_apart(name: &str, dir: &Path) -> Option<String> {
    let exe = std::env::current_exe().expect("this program's path");
    let mut child = Command::new(exe)
        .args(["--case", name])
        .current_dir(dir)
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .expect("start a case");
    kernel::wait_unreaped(child.id());
    kernel::kill_group(child.id());
    let status = child.wait().expect("wait for a case");
    match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(101), _) => Some("it panicked, see above".into()),
        (Some(code), _) => Some(format!("it exited with {code}")),
        (_, Some(libc::SIGALRM)) => Some(format!(
            "it hung for {WATCHDOG_SECONDS} s and the watchdog ended it"
        )),
        (_, signal) => Some(format!("signal {signal:?} killed it")),
    }
}

/// The call failed with this errno.
#[track_caller]
pub fn fails<T>(result: std::io::Result<T>, errno: i32) -> std::io::Error {
    let Err(e) = result else {
        panic!("the call must fail with errno {errno} and succeeded");
    };
    assert_eq!(e.raw_os_error(), Some(errno), "{e}");
    e
}

/// Waits for what another process or thread is about to do.
#[track_caller]
pub fn until(what: &str, mut come: impl FnMut() -> bool) {
    for _ in 0..60_000 {
        if come() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_micros(250));
    }
    panic!("it did not come true in 15 s: {what}");
}
