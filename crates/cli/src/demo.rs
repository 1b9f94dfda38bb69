//! `byway demo`: real pipelines on a real file, plain and carried in turn, in one table.
//!
//! Invariant: the two sides of a ratio ran one after the other, pair by pair; every output and status is compared; the
//! temporary folder is removed.
//! Not here: other workloads, other backends.
use std::fs;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

struct Folder(PathBuf);
impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The pipelines: name, and a shell line over the files `F` (all), `G` (50 MB) and `S` (20 MB).
const CASES: [(&str, &str); 10] = [
    ("wc", "cat $F | wc -c"),
    ("grep-50MB", "cat $G | grep -c nosuchpattern"),
    ("grep-500MB", "cat $F | grep -c nosuchpattern"),
    ("tar", "tar cf - -C ${F%/*} ${F##*/} | cat | wc -c"),
    ("cat-3", "cat $F | cat | wc -c"),
    ("cat-4", "cat $F | cat | cat | wc -c"),
    (
        "cat-8",
        "cat $F | cat | cat | cat | cat | cat | cat | wc -c",
    ),
    ("sort", "cat $G | sort | tail -1"),
    ("gzip", "cat $S | gzip -1 | gunzip | wc -c"),
    (
        "python-lines",
        "cat $G | python3 -c 'import sys; print(sum(1 for _ in sys.stdin))'",
    ),
];

/// Runs everything; 1 if any output or status differed, 2 if it could not start.
pub fn demo(size: u64, runs: usize) -> i32 {
    match table(size.max(1), runs.max(1)) {
        Ok(same) => i32::from(!same),
        Err(e) => {
            eprintln!(
                "byway: demo: {e}; it needs room in {} and bash",
                std::env::temp_dir().display()
            );
            2
        }
    }
}

fn text(path: &Path, bytes: u64) -> std::io::Result<()> {
    let mut f = BufWriter::with_capacity(1 << 20, fs::File::create(path)?);
    let (mut n, mut x) = (0u64, 1u64);
    while n < bytes {
        x = x
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let line = format!(
            "{:016x} the quick brown fox jumps over the lazy dog {:012}\n",
            x, n
        );
        f.write_all(line.as_bytes())?;
        n += line.len() as u64;
    }
    f.flush()
}

fn once(line: &str, carried: bool, dir: &Path) -> std::io::Result<(f64, Vec<u8>, Option<i32>)> {
    let mut c = if carried {
        let mut c = Command::new(std::env::current_exe()?);
        c.args(["run", "--", "bash", "-c", line]);
        c
    } else {
        let mut c = Command::new("bash");
        c.args(["-c", line]);
        c
    };
    c.env("F", dir.join("text"))
        .env("G", dir.join("text50"))
        .env("S", dir.join("text20"));
    let t = Instant::now();
    let out = c.stdin(Stdio::null()).output()?;
    Ok((t.elapsed().as_secs_f64(), out.stdout, out.status.code()))
}

fn median(v: &mut [f64]) -> f64 {
    v.sort_by(f64::total_cmp);
    let n = v.len();
    if n % 2 == 1 {
        v[n / 2]
    } else {
        (v[n / 2 - 1] + v[n / 2]) / 2.0
    }
}

/// A 95 % interval of the median of `v` by order statistics (sign test): exact, without assumptions.
fn interval(v: &mut [f64]) -> (f64, f64) {
    v.sort_by(f64::total_cmp);
    let n = v.len();
    // The largest k with 2 * P(Binomial(n, 1/2) < k) <= 0.05; k = 0 means the whole range is the best there is.
    let (mut below, mut choose, mut k) = (0.0, 0.5f64.powi(n as i32), 0);
    while k < n && 2.0 * (below + choose) <= 0.05 {
        below += choose;
        choose *= (n - k) as f64 / (k + 1) as f64;
        k += 1;
    }
    let i = k.saturating_sub(1);
    (v[i], v[n - 1 - i])
}

fn table(size: u64, runs: usize) -> std::io::Result<bool> {
    let dir = std::env::temp_dir().join(format!("byway-demo-{}", std::process::id()));
    fs::create_dir(&dir)?;
    let dir = Folder(dir);
    for (name, mb) in [
        ("text", size),
        ("text50", size.min(50)),
        ("text20", size.min(20)),
    ] {
        text(&dir.0.join(name), mb * 1_000_000)?;
    }
    let progress = std::io::stderr().is_terminal();
    println!(
        "{:<14}{:>10}{:>10}{:>8}  {:<14}same",
        "pipeline", "plain s", "byway s", "ratio", "95 %"
    );
    let mut all = true;
    for (k, (name, line)) in CASES.iter().enumerate() {
        let (mut plain, mut carried, mut ratio, mut same) =
            (Vec::new(), Vec::new(), Vec::new(), true);
        for i in 0..=runs {
            if progress {
                eprint!("\r{}/{} {name} {i}/{runs} ", k + 1, CASES.len());
            }
            let a = once(line, false, &dir.0)?;
            let b = once(line, true, &dir.0)?;
            same &= a.1 == b.1 && a.2 == b.2;
            // The first pair warms the caches.
            if i > 0 {
                ratio.push(a.0 / b.0);
                plain.push(a.0);
                carried.push(b.0);
            }
        }
        if progress {
            eprint!("\r{:40}\r", "");
        }
        let (lo, hi) = interval(&mut ratio);
        println!(
            "{name:<14}{:>10.3}{:>10.3}{:>8.2}  {:<14}{}",
            median(&mut plain),
            median(&mut carried),
            median(&mut ratio),
            format!("{lo:.2}-{hi:.2}"),
            if same { "yes" } else { "NO" }
        );
        all &= same;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_of_seven_is_the_range() {
        let mut v = [7.0, 1.0, 3.0, 2.0, 6.0, 5.0, 4.0];
        assert_eq!(interval(&mut v), (1.0, 7.0));
        assert_eq!(median(&mut v), 4.0);
    }

    #[test]
    fn interval_narrows() {
        let mut v: Vec<f64> = (1..=20).map(f64::from).collect();
        assert_eq!(interval(&mut v), (6.0, 15.0));
    }
}
