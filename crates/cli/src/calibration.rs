//! What `--pipe auto` knows of this machine: measured once, kept in the cache folder, and used by every run after that.
//!
//! Invariant: a file that others may write, or that is not word for word of this machine, kernel, program and number of CPUs, is as
//! if there were none; figures that are not there, or not clear, leave auto as it is without. Nothing is measured that could not be
//! kept, so that no run after the first takes its time.
//! Not here: how it is measured (measure.rs); what a channel does, which decides the rest (crate pipe, policy.rs; ADR 18).
use crate::rewrite;
use byway_lab::report::day;
use byway_sys::process;
use std::fs::{self, File};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

mod measure;
use measure::{Pulls, Wakes};

/// The first line of a file: its kind, and the version of what follows.
const FORMAT: &str = "byway calibration 1";
/// More than any file of ours.
const LONGEST: usize = 4096;
/// Microseconds for which a wait may spin. The policy's own constant is the upper one.
const SPIN_LEAST: u64 = 2;
const SPIN_MOST: u64 = 20;
/// Where direct writes pay on one CPU, they do from here on.
const DIRECT_FROM: u64 = 1 << 20;
/// Fewer wake-ups, or rounds, tell nothing.
const WAKES_LEAST: u64 = 20;
const ROUNDS_LEAST: u64 = 5;

/// What a domain is told of its machine; 0: as the policy has it.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Told {
    pub spin_us: u32,
    pub direct_from: u32,
}

/// Why a file may be used: it was made for this.
struct Place {
    /// The lines that it must begin with.
    head: String,
    name: String,
    cpus: u32,
}

impl Place {
    fn here() -> Place {
        Place::of(&cpu(), &release(), process::allowed_cpus())
    }

    /// A file for each number of CPUs that a run may use: with one other things are worth knowing than with several.
    fn of(cpu: &str, kernel: &str, cpus: u32) -> Place {
        let head = format!(
            "{FORMAT}\nprogram = {}\ncpu = {cpu}\nkernel = {kernel}\ncpus = {cpus}\n",
            env!("CARGO_PKG_VERSION")
        );
        // FNV-1a: the name only keeps machines that share a folder apart; the lines themselves must agree.
        let hash = head.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| {
            (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
        });
        Place {
            name: format!("calibration-{hash:016x}.txt"),
            head,
            cpus,
        }
    }
}

/// The processor, as /proc/cpuinfo names the first.
fn cpu() -> String {
    // Of a large machine's long file the first lines do.
    let mut start = [0u8; 512];
    let n = File::open("/proc/cpuinfo").and_then(|mut f| f.read(&mut start));
    let text = String::from_utf8_lossy(&start[..n.unwrap_or(0)]);
    let line = text.lines().find_map(|l| l.strip_prefix("model name"));
    let name = line.and_then(|l| l.split_once(':')).map_or("", |(_, v)| v);
    name.trim().into()
}

/// `uname -r`.
fn release() -> String {
    // SAFETY: fills a struct of ours with NUL-terminated names.
    unsafe {
        let mut u: libc::utsname = std::mem::zeroed();
        libc::uname(&mut u);
        let name = std::ffi::CStr::from_ptr(u.release.as_ptr());
        name.to_string_lossy().into_owned()
    }
}

/// What was measured, and what follows from it.
#[derive(Clone, Default, PartialEq, Debug)]
struct Figures {
    /// Seconds since 1970.
    time: u64,
    wakes: Wakes,
    pulls: Pulls,
    spin_us: u64,
    direct_from: u64,
}

impl Figures {
    /// The lines of a file below its head.
    fn fields(&mut self) -> [(&'static str, &mut u64); 11] {
        let (w, p) = (&mut self.wakes, &mut self.pulls);
        [
            ("time", &mut self.time),
            ("wakes", &mut w.n),
            ("wake_low_ns", &mut w.low),
            ("wake_ns", &mut w.middle),
            ("wake_high_ns", &mut w.high),
            ("rounds", &mut p.n),
            ("ring_ns", &mut p.ring),
            ("pull_ns", &mut p.pull),
            ("rounds_lost", &mut p.lost),
            ("spin_us", &mut self.spin_us),
            ("direct_from", &mut self.direct_from),
        ]
    }

    fn text(&self, head: &str) -> String {
        let mut all = self.clone();
        let lines = all.fields().map(|(k, v)| format!("{k} = {v}\n"));
        format!("{head}{}", lines.concat())
    }

    /// The figures in the text of a file with this head: all of them, once each, and such as could have been measured.
    fn parse(text: &str, head: &str) -> Option<Figures> {
        let rest = text.strip_prefix(head)?.strip_suffix('\n')?;
        let mut f = Figures::default();
        let mut seen = [false; 11];
        for line in rest.split('\n') {
            let (key, value) = line.split_once(" = ")?;
            let fields = f.fields();
            let at = fields.iter().position(|(k, _)| *k == key)?;
            let is_number = value.bytes().all(|b| b.is_ascii_digit());
            if std::mem::replace(&mut seen[at], true) || !is_number {
                return None;
            }
            *fields[at].1 = value.parse().ok()?;
        }
        let sound = (f.spin_us == 0 || (SPIN_LEAST..=SPIN_MOST).contains(&f.spin_us))
            && (f.direct_from == 0 || f.direct_from == DIRECT_FROM);
        (sound && seen.iter().all(|&s| s)).then_some(f)
    }

    fn measured(cpus: u32) -> Figures {
        let (wakes, pulls) = match cpus {
            1 => (Wakes::default(), measure::pulls().unwrap_or_default()),
            _ => (measure::wakes().unwrap_or_default(), Pulls::default()),
        };
        Figures {
            time: std::time::SystemTime::UNIX_EPOCH
                .elapsed()
                .map_or(0, |d| d.as_secs()),
            spin_us: spin_us(&wakes),
            direct_from: direct_from(&pulls),
            wakes,
            pulls,
        }
    }

    fn told(&self, cpus: u32) -> Told {
        Told {
            spin_us: self.spin_us as u32,
            // On several CPUs no figure of the machine's decides that (ADR 7).
            direct_from: if cpus == 1 {
                self.direct_from as u32
            } else {
                0
            },
        }
    }
}

/// As long as a sleep and its wake-up take, and no longer: so no wait takes more than twice what the better of the two would have. 0: not clear,
/// for there were few, or half of them lie further apart than by a factor of two.
fn spin_us(w: &Wakes) -> u64 {
    if w.n < WAKES_LEAST || w.high > w.low.saturating_mul(2) {
        return 0;
    }
    (w.middle.saturating_add(500) / 1000).clamp(SPIN_LEAST, SPIN_MOST)
}

/// From where on writes on one CPU go direct; 0: none, unless that takes a tenth less time at least, and took no more in any round.
fn direct_from(p: &Pulls) -> u64 {
    let pays = p.pull.saturating_mul(10) <= p.ring.saturating_mul(9);
    if p.n >= ROUNDS_LEAST && p.lost == 0 && pays {
        DIRECT_FROM
    } else {
        0
    }
}

/// Whether this process is in a run itself: a pipe here may be none of the kernel's.
fn is_carried() -> bool {
    std::env::var_os("BYWAY").is_some_and(|v| v != "off")
}

/// What the domain of a run with this cache is told: what was kept, or else measured now and kept.
pub fn obtain(cache: &Path) -> Told {
    let place = Place::here();
    let path = cache.join(&place.name);
    let found = kept(&path, &place);
    let f = found.or_else(|| make(&path, &place).ok());
    f.map_or(Told::default(), |f| f.told(place.cpus))
}

/// The figures of a file that nobody but this user and root could have written.
fn kept(path: &Path, place: &Place) -> Option<Figures> {
    let f = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
        .ok()?;
    let m = f.metadata().ok()?;
    let ours = rewrite::is_trusted(m.uid()) && m.mode() & 0o022 == 0;
    if !m.is_file() || !ours || m.len() > LONGEST as u64 {
        return None;
    }
    let mut text = [0u8; LONGEST];
    let n = f.read_at(&mut text, 0).ok()?;
    Figures::parse(std::str::from_utf8(&text[..n]).ok()?, &place.head)
}

/// Measures, and keeps the figures under `path`, in place of whatever stands there.
fn make(path: &Path, place: &Place) -> Result<Figures> {
    if is_carried() {
        return Err(Error::other("inside of a run pipes are not the kernel's"));
    }
    // What cannot be replaced is found out before, not after: else every run would measure.
    if let Err(e) = fs::remove_file(path)
        && e.kind() != ErrorKind::NotFound
    {
        return Err(e);
    }
    let tmp = path.with_file_name(format!(".{}.{}", place.name, std::process::id()));
    let _ = fs::remove_file(&tmp);
    let made = write(&tmp, place).and_then(|figures| {
        fs::rename(&tmp, path)?;
        Ok(figures)
    });
    if made.is_err() {
        let _ = fs::remove_file(&tmp);
    }
    made
}

fn write(tmp: &Path, place: &Place) -> Result<Figures> {
    let mut f = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(tmp)?;
    // The disk may be full: better seen before than after.
    let room = [b'\n'; 1024];
    f.write_all(&room)?;
    let figures = Figures::measured(place.cpus);
    let text = figures.text(&place.head);
    f.write_all_at(text.as_bytes(), 0)?;
    f.set_len(text.len() as u64)?;
    Ok(figures)
}

/// For `byway doctor`: what is kept, and what auto does because of it.
pub fn tell(cache: &Path) -> String {
    let place = Place::here();
    match kept(&cache.join(&place.name), &place) {
        Some(f) => describe(&f, place.cpus),
        None => "calibration: none of this machine yet; the first `byway run` makes it".into(),
    }
}

/// For `byway doctor --calibrate`: the same of figures that are measured now.
///
/// # Errors
/// A sentence: why there are none, and what to try.
pub fn anew(cache: &Path) -> std::result::Result<String, String> {
    let place = Place::here();
    let path: PathBuf = cache.join(&place.name);
    match make(&path, &place) {
        Ok(f) => Ok(format!(
            "{}\nkept in {}",
            describe(&f, place.cpus),
            path.display()
        )),
        Err(_) if is_carried() => {
            Err("inside of a run nothing can be measured; try it outside".into())
        }
        Err(e) => Err(format!(
            "{}: {e}; set BYWAY_CACHE to a folder of yours",
            path.display()
        )),
    }
}

fn describe(f: &Figures, cpus: u32) -> String {
    let us = |ns: u64| ns as f64 / 1000.0;
    let (w, p) = (&f.wakes, &f.pulls);
    let seen = match (cpus, w.n, p.n) {
        (1, _, 0) => "a copy out of another process could not be measured".into(),
        (1, _, n) => format!(
            "1 MiB takes {:.0} us through a ring and {:.0} us in one copy (n {n}, slower in {})",
            us(p.ring),
            us(p.pull),
            p.lost
        ),
        (_, 0, _) => "a wake-up could not be measured".into(),
        (_, n, _) => format!(
            "a wake-up from CPU to CPU takes {:.1} us (half of them {:.1} to {:.1}, n {n})",
            us(w.middle),
            us(w.low),
            us(w.high)
        ),
    };
    let so = match (cpus, f.spin_us, f.direct_from) {
        (1, _, 0) => "no write goes direct".into(),
        (1, _, n) => format!("writes from {} MiB on go direct", n >> 20),
        (_, 0, _) => format!("not clear, so a wait spins up to {SPIN_MOST} us as usual"),
        (_, n, _) => format!("a wait spins up to {n} us"),
    };
    format!("calibration of {}: {seen}: {so}", day(f.time))
}

#[cfg(test)]
mod tests;
