//! Real shell pipelines on a real file, plain and carried in turn.
//!
//! Invariant: the two sides of a pair run one after the other; every output and status is compared; the folder of the
//! files is removed with the value.
//! Not here: how a side is started (shell.rs); progress; tables (table.rs).
use super::Workload;
use super::shell::{self, Ran, Side};
use crate::child::Failure;
use crate::record::{Better, Parameters, Record};
use crate::runner::{Contest, Figures, Limits};
use crate::scratch::{self, Scratch};
use crate::{machine, table};
use std::ffi::OsString;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One pipeline: its id in the record and its shell line over `$F` (the whole text), `$G` (50 MB of it), `$P` (python) and
/// `$B` (this program).
#[derive(Clone)]
pub struct Case {
    pub id: String,
    line: String,
    one_cpu: bool,
}

impl Case {
    /// A line of somebody else's.
    pub fn of(id: &str, line: &str) -> Case {
        Case {
            id: id.into(),
            line: line.into(),
            one_cpu: false,
        }
    }
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

const MB: u64 = 1_000_000;

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
        let (text, small) = (mb.saturating_mul(MB), mb.min(50) * MB);
        let t = Texts::none(text.saturating_add(small))?;
        write_text(&t.dir.path().join("text"), text)?;
        write_text(&t.small(), small)?;
        Ok(t)
    }

    /// Only the one of 50 million bytes.
    ///
    /// # Errors
    /// As `create`.
    pub fn fifty() -> std::io::Result<Texts> {
        let t = Texts::none(50 * MB)?;
        write_text(&t.small(), 50 * MB)?;
        Ok(t)
    }

    /// The file of 50 million bytes.
    pub fn small(&self) -> PathBuf {
        self.dir.path().join("text50")
    }

    /// No file yet, and room for `bytes`. A folder that others use as well is not filled to find out.
    fn none(bytes: u64) -> std::io::Result<Texts> {
        let room = scratch::room(&std::env::temp_dir())?;
        if room < bytes {
            let text = format!("there are {} MB free", room / MB);
            return Err(std::io::Error::new(std::io::ErrorKind::StorageFull, text));
        }
        let name = format!("byway-demo-{}", std::process::id());
        Ok(Texts {
            dir: Scratch::create(&name, &["text", "text50"])?,
            // Without one its case says so.
            python: shell::python().unwrap_or_else(|| "python3".into()),
        })
    }
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

const TRIPS: &str = "20000";
/// Longer than any pipeline takes on a machine that is not stuck.
const LIMIT: Duration = Duration::from_secs(300);

/// Runs `case` once, on `cpus` if they are given.
///
/// # Errors
/// A program could not be started, or did not end.
pub fn run(
    case: &Case,
    side: Side,
    byway: &Path,
    texts: &Texts,
    cpus: Option<&[usize]>,
) -> Result<Run, Failure> {
    let ping = case.line.is_empty();
    let mut c = side.command(byway, if ping { byway } else { Path::new("bash") });
    if ping {
        c.args([PING_PONG, TRIPS]);
    } else {
        c.args(["-c", &case.line]);
    }
    c.env("F", texts.dir.path().join("text"))
        .env("G", texts.small())
        .env("B", byway)
        .env("P", &texts.python);
    let Ran {
        wall: whole,
        cpu,
        said: out,
    } = side.run(&mut c, cpus, LIMIT)?;
    let busy = cpu / whole;
    let (wall, output) = if ping {
        let text = String::from_utf8_lossy(&out.out);
        let s = text.trim().parse().map_err(|_| {
            Failure::Said(format!(
                "ping-pong said: {text}{}; try it again while the machine is idle",
                String::from_utf8_lossy(&out.err)
            ))
        })?;
        (s, Vec::new())
    } else {
        (whole, out.out)
    };
    Ok(Run {
        wall,
        busy,
        output,
        status: out.status.code(),
    })
}

/// All pipelines, or some, ready to be run.
pub struct Pipelines {
    byway: PathBuf,
    cpus: Vec<usize>,
    /// Million bytes of text.
    size: u64,
    quick: bool,
    texts: Option<Texts>,
}

impl Pipelines {
    /// `byway` is the program.
    pub fn new(byway: &Path, cpus: Vec<usize>, size: u64, quick: bool) -> Pipelines {
        Pipelines {
            byway: byway.into(),
            cpus,
            size,
            quick,
            texts: None,
        }
    }
}

/// A run with its time in seconds.
struct Timed {
    wall: [f64; 1],
    run: Run,
}

impl Figures for Timed {
    fn figures(&self) -> &[f64] {
        &self.wall
    }
}

const BACKENDS: [&str; 2] = ["kernel", "byway"];

impl Workload for Pipelines {
    fn name(&self) -> &'static str {
        "pipeline"
    }
    fn cases(&self) -> Vec<String> {
        let all = cases().into_iter();
        let fit = all.filter(|c| !c.one_cpu || self.cpus.len() > 1);
        fit.map(|c| c.id).collect()
    }
    fn cpus(&self) -> Vec<usize> {
        self.cpus.clone()
    }
    fn parameters(&self) -> Parameters {
        Parameters::from([
            ("size_mb".into(), self.size.into()),
            ("trips".into(), TRIPS.into()),
        ])
    }
    fn usual(&self) -> Limits {
        Limits::usual(self.quick, 13, 120)
    }

    fn prepare(&mut self, record: &mut Record, _: &[String]) -> Result<(), Failure> {
        let made = Texts::create(self.size).map_err(|e| {
            Failure::Said(format!(
                "no files of {} MB in {}: {e}; give a smaller --size, or set TMPDIR to a folder of yours with more room",
                self.size.saturating_add(self.size.min(50)),
                std::env::temp_dir().display()
            ))
        })?;
        let nothing = Case {
            id: String::new(),
            line: "true".into(),
            one_cpu: false,
        };
        for (side, what) in [
            (Side::Plain, "bash -c true"),
            (Side::Carried(&[]), "the same under byway run"),
        ] {
            shell::overhead(record, what, || {
                Ok(run(&nothing, side, &self.byway, &made, None)?.wall)
            })?;
        }
        self.texts = Some(made);
        Ok(())
    }

    fn measure(
        &mut self,
        record: &mut Record,
        id: &str,
        limits: &Limits,
        tick: &mut dyn FnMut(f64),
    ) -> Result<(), Failure> {
        let (Some(case), Some(texts)) = (cases().into_iter().find(|c| c.id == id), &self.texts)
        else {
            return Err(Failure::Said(format!("there is no case {id}")));
        };
        let places = if case.one_cpu {
            &self.cpus[..1]
        } else {
            &self.cpus
        };
        let contest = Contest {
            case: id,
            metric: "wall",
            unit: "s",
            better: Better::Less,
            backends: &BACKENDS,
            ratios: &[(1, 0)],
        };
        let sides = [Side::Plain, Side::Carried(&[])];
        let one = |k: usize| {
            let run = run(&case, sides[k], &self.byway, texts, Some(places))?;
            Ok(Timed {
                wall: [run.wall],
                run,
            })
        };
        let outcome = contest.run(limits, one, tick)?;
        record.add(&contest, &outcome);
        let all = outcome.runs.iter().flatten();
        shell::compare(record, id, all.map(|t| (&t.run.output[..], t.run.status)));
        if outcome.rounds() > 0 {
            for (runs, backend) in outcome.runs.iter().zip(BACKENDS) {
                let busy: Vec<_> = runs.iter().map(|t| vec![t.run.busy]).collect();
                record.row(id, backend, ("cpus_busy", "cpu", None), &busy);
            }
        }
        Ok(())
    }

    fn heading(&self) -> Vec<String> {
        vec![table::heading("pipeline")]
    }
    fn lines(&self, record: &Record, id: &str) -> Vec<String> {
        let same = shell::is_right(record, id);
        let ratio = record.ratios.iter().filter(|r| r.case == id);
        ratio
            .map(|r| table::line(record, r, &r.case, same))
            .collect()
    }
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
