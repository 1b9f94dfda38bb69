//! Real shell pipelines on a real file, plain and carried in turn.
//!
//! Invariant: the two sides of a pair run one after the other; every output and status is compared; the folder of the
//! files is removed with the value.
//! Not here: progress, tables.
use crate::machine;
use crate::record::{Better, Record};
use crate::scratch::Scratch;
use std::ffi::OsString;
use std::fs;
use std::io::{BufWriter, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// One pipeline: its id in the record and its shell line over `$F` (the whole text), `$G` (50 MB of it) and `$P` (python).
#[derive(Clone)]
pub struct Case {
    pub id: String,
    line: String,
    one_cpu: bool,
}

const LINES: [(&str, &str); 7] = [
    ("wc", "cat $F | wc -c"),
    ("grep-50MB", "cat $G | grep -c nosuchpattern"),
    ("grep-500MB", "cat $F | grep -c nosuchpattern"),
    ("tar", "tar cf - -C ${F%/*} ${F##*/} | cat | wc -c"),
    ("sort", "cat $G | sort | tail -1"),
    ("gzip", "cat $G | gzip -1 | gunzip | wc -c"),
    (
        "python-lines",
        "cat $G | $P -c 'import sys; print(sum(1 for _ in sys.stdin))'",
    ),
];
/// The byte ping-pong: not a shell line, measured by itself.
const PING_PONG: &str = "ping-pong";

/// All cases, on all CPUs and then each again on one. `cat-N` has N stages: N - 1 times cat, then wc.
pub fn cases() -> Vec<Case> {
    let mut v: Vec<Case> = Vec::new();
    for one_cpu in [false, true] {
        if one_cpu && !machine::many_cpus() {
            break;
        }
        let end = if one_cpu { "@1cpu" } else { "" };
        let mut add = |id: &str, line: String| {
            v.push(Case {
                id: format!("{id}{end}"),
                line,
                one_cpu,
            });
        };
        for (id, line) in &LINES[..4] {
            add(id, (*line).into());
        }
        for n in 2..=8 {
            add(
                &format!("cat-{n}"),
                format!("cat $F{} | wc -c", " | cat".repeat(n - 2)),
            );
        }
        for (id, line) in &LINES[4..] {
            add(id, (*line).into());
        }
        add(PING_PONG, String::new());
    }
    v
}

/// The text files, in a folder that goes with the value.
pub struct Texts {
    dir: Scratch,
    /// The interpreter itself: what is called python3 may be a shell script that looks for it.
    python: OsString,
}

impl Texts {
    /// Makes them: `mb` million bytes of lines, and the first 50 million of them.
    ///
    /// # Errors
    /// The temporary folder has no room.
    pub fn create(mb: u64) -> std::io::Result<Texts> {
        let t = Texts::none()?;
        write_text(&t.dir.path().join("text"), mb * 1_000_000)?;
        write_text(&t.dir.path().join("text50"), mb.min(50) * 1_000_000)?;
        Ok(t)
    }

    /// Only the one of 50 million bytes.
    ///
    /// # Errors
    /// As `create`.
    pub fn fifty() -> std::io::Result<Texts> {
        let t = Texts::none()?;
        write_text(&t.dir.path().join("text50"), 50_000_000)?;
        Ok(t)
    }

    fn none() -> std::io::Result<Texts> {
        let name = format!("byway-demo-{}", std::process::id());
        Ok(Texts {
            dir: Scratch::create(&name, &["text", "text50"])?,
            python: python(),
        })
    }
}

fn python() -> OsString {
    let out = Command::new("python3")
        .args(["-c", "import sys; print(sys.executable)"])
        .stdin(Stdio::null())
        .output();
    out.ok()
        .filter(|o| o.status.success())
        .map(|o| String::from_utf8_lossy(&o.stdout).trim().into())
        .unwrap_or_else(|| "python3".into())
}

fn write_text(path: &Path, bytes: u64) -> std::io::Result<()> {
    let mut f = BufWriter::with_capacity(1 << 20, fs::File::create(path)?);
    let (mut n, mut x) = (0u64, 1u64);
    while n < bytes {
        x = x
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let line = format!("{x:016x} the quick brown fox jumps over the lazy dog {n:012}\n");
        f.write_all(line.as_bytes())?;
        n += line.len() as u64;
    }
    f.flush()
}

/// One run of one side.
pub struct Run {
    /// Wall time of the whole, or of one round trip, s.
    pub wall: f64,
    /// CPU time over wall time: near 1 means that the kernel packed the stages on one CPU.
    busy: f64,
    pub output: Vec<u8>,
    status: Option<i32>,
}

/// How a pipeline is started.
#[derive(Clone, Copy)]
pub enum Side<'a> {
    Plain,
    /// Under `byway run`, with these words.
    Carried(&'a [&'a str]),
}

/// CPU seconds of all children waited for so far.
fn children() -> f64 {
    // SAFETY: fills a struct of ours.
    let u = unsafe {
        let mut u: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut u);
        u
    };
    let s = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    s(u.ru_utime) + s(u.ru_stime)
}

const TRIPS: &str = "20000";

/// Runs `case` once, on `cpus` if they are given.
///
/// # Errors
/// A program could not be started.
pub fn run(
    case: &Case,
    side: Side,
    byway: &Path,
    texts: &Texts,
    cpus: Option<&[usize]>,
) -> std::io::Result<Run> {
    let ping = case.line.is_empty();
    let mut c = if ping || matches!(side, Side::Carried(_)) {
        Command::new(byway)
    } else {
        Command::new("bash")
    };
    if let Side::Carried(words) = side {
        c.arg("run").args(words).arg("--");
        c.arg(if ping { byway } else { Path::new("bash") });
    }
    if ping {
        c.args([PING_PONG, TRIPS]);
    } else {
        c.args(["-c", &case.line]);
    }
    c.env("F", texts.dir.path().join("text"))
        .env("G", texts.dir.path().join("text50"))
        .env("P", &texts.python);
    let cpus = cpus.map(<[usize]>::to_vec);
    // SAFETY: `bind` and prctl(2) only make system calls.
    unsafe {
        c.pre_exec(move || {
            if let Some(cpus) = &cpus {
                machine::bind(cpus);
            }
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            Ok(())
        });
    }
    let (t, used) = (Instant::now(), children());
    let out = c.stdin(Stdio::null()).output()?;
    let whole = t.elapsed().as_secs_f64();
    let busy = (children() - used) / whole;
    let (wall, output) = if ping {
        let text = String::from_utf8_lossy(&out.stdout);
        let s = text.trim().parse().map_err(|_| {
            std::io::Error::other(format!(
                "ping-pong said: {text}{}",
                String::from_utf8_lossy(&out.stderr)
            ))
        })?;
        (s, Vec::new())
    } else {
        (whole, out.stdout)
    };
    Ok(Run {
        wall,
        busy,
        output,
        status: out.status.code(),
    })
}

/// Measures one case: one pair to warm up, then `runs` counted pairs, told to `tick` one by one. Adds to the record;
/// true if all outputs and statuses were the same.
///
/// # Errors
/// A program could not be started.
pub fn measure(
    record: &mut Record,
    case: &Case,
    runs: usize,
    byway: &Path,
    texts: &Texts,
    mut tick: impl FnMut(),
) -> std::io::Result<bool> {
    let (mut wall, mut busy) = ([vec![], vec![]], [vec![], vec![]]);
    let mut same = true;
    let first = [machine::allowed()[0]];
    let cpus = case.one_cpu.then_some(&first[..]);
    for i in 0..=runs {
        let a = run(case, Side::Plain, byway, texts, cpus)?;
        let b = run(case, Side::Carried(&[]), byway, texts, cpus)?;
        same &= a.output == b.output && a.status == b.status;
        if i > 0 {
            for (k, r) in [a, b].into_iter().enumerate() {
                wall[k].push(r.wall);
                busy[k].push(r.busy);
            }
        }
        tick();
    }
    for (k, backend) in ["kernel", "byway"].into_iter().enumerate() {
        record.row(&case.id, backend, "wall", "s", &wall[k]);
        record.row(&case.id, backend, "cpus_busy", "cpu", &busy[k]);
    }
    record.ratio(
        &case.id,
        "wall",
        Better::Less,
        ("byway", &wall[1]),
        ("kernel", &wall[0]),
    );
    Ok(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_complete() {
        let v = cases();
        let mut ids: Vec<_> = v.iter().map(|c| c.id.as_str()).collect();
        ids.sort_unstable();
        let n = ids.len();
        ids.dedup();
        assert_eq!(n, ids.len());
        for id in ["wc", "grep-50MB", "grep-500MB", "tar", "cat-2", "cat-8"] {
            assert!(ids.contains(&id), "{id}");
        }
    }

    #[test]
    fn a_chain_has_its_stages() {
        let c = cases().into_iter().find(|c| c.id == "cat-4").unwrap();
        assert_eq!(c.line, "cat $F | cat | cat | wc -c");
    }
}
