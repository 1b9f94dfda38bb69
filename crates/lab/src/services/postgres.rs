//! PostgreSQL in a folder of its own, asked by pgbench over its UNIX socket.
//!
//! ```text
//! prepare   initdb, pgbench -i: a database of 100,000 accounts, once for all runs
//! run       psql: all accounts, compared        pgbench -S: one account at a time, by 1 or 8 clients
//! ```
//! Invariant: a run only reads, so every run finds the same database. The server uses no shared memory with a name.
//! Not here: as whom it runs (user.rs).
use super::case::Case;
use super::worker::{client, number, run_folder, strange};
use crate::child::Failure;
use crate::program;
use crate::server::Server;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

pub const PROGRAMS: [&str; 4] = ["initdb", "postgres", "pgbench", "psql"];
/// Where Debian has a folder for each version.
const VERSIONS: &str = "/usr/lib/postgresql";
/// Accounts of a database of scale 1.
const ACCOUNTS: u32 = 100_000;
const USER: &str = "byway";
/// Threads of pgbench, which are two on most machines.
const THREADS: u32 = 2;

/// The newest of Debian's versions, else what is on the path.
pub fn find(name: &str) -> Option<PathBuf> {
    let versions = std::fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    let versions = versions.map(|v| v.path().join("bin"));
    let whole = |bin: &PathBuf| PROGRAMS.iter().all(|p| bin.join(p).is_file());
    let newest = versions.filter(whole).max_by_key(|bin| {
        let version = bin.parent()?.file_name()?.to_str()?;
        version.split('.').next()?.parse::<u32>().ok()
    });
    newest.map_or_else(|| program::find(name, &[]), |bin| Some(bin.join(name)))
}

fn command(name: &str) -> Command {
    Command::new(find(name).unwrap_or_default())
}

/// Of pgbench and psql: where the server is.
fn asking(name: &str, run: &Path) -> Command {
    let mut c = command(name);
    c.arg("-h").arg(run).args(["-U", USER]);
    c
}

fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}

fn start(folder: &Path, run: &Path) -> Result<Server, Failure> {
    let mut c = command("postgres");
    c.arg("-D").arg(data(folder)).arg("-k").arg(run);
    for setting in [
        "listen_addresses=",
        "unix_socket_permissions=0700",
        "fsync=off",
        // Files in its folder in place of names in /dev/shm, which would stay if it were killed.
        "dynamic_shared_memory_type=mmap",
    ] {
        c.args(["-c", setting]);
    }
    let socket = run.join(".s.PGSQL.5432");
    // It listens before it lets anybody in; a lock file has a line that says when it does.
    let ready = data(folder).join("postmaster.pid");
    let listens = || {
        let text = std::fs::read_to_string(&ready).unwrap_or_default();
        let state = text.lines().nth(7).map(str::trim);
        state == Some("ready") && UnixStream::connect(&socket).is_ok()
    };
    // SIGINT is its fast shutdown: clients are not waited for.
    Server::start("postgres", &mut c, run, libc::SIGINT, listens)
}

/// Makes the database.
///
/// # Errors
/// What went wrong.
pub fn prepare(folder: &Path) -> Result<(), Failure> {
    let mut c = command("initdb");
    c.arg("-D").arg(data(folder));
    c.args([
        "-U",
        USER,
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--locale=C",
        "--no-sync",
    ]);
    client("initdb", &mut c)?;
    let run = run_folder(folder)?;
    let server = start(folder, &run)?;
    let mut c = asking("pgbench", &run);
    client("pgbench", c.args(["-i", "-s", "1", "-q", "postgres"]))?;
    server.end()
}

/// `n` transactions that read an account each: how many a second.
///
/// # Errors
/// What went wrong.
pub fn run(case: &Case, n: u32, folder: &Path, run: &Path) -> Result<Vec<f64>, Failure> {
    let server = start(folder, run)?;
    let mut c = asking("psql", run);
    let query = "select aid from pgbench_accounts order by aid";
    // Into a file: by a pipe to the worker it would be bytes that are carried, and not of the socket.
    let accounts = run.join("accounts");
    c.args(["-At", "-c", query, "postgres", "-o"])
        .arg(&accounts);
    client("psql", &mut c)?;
    compare(&std::fs::read_to_string(accounts)?)?;
    let mut c = asking("pgbench", run);
    let each = (n / case.clients).to_string();
    c.args(["-S", "-n", "-t", &each, "-c", &case.clients.to_string()]);
    c.args(["-j", &case.clients.min(THREADS).to_string(), "postgres"]);
    let said = client("pgbench", &mut c)?;
    server.end()?;
    Ok(vec![rate(&said, n)?])
}

/// All accounts, one a line, in their order.
fn compare(said: &str) -> Result<(), Failure> {
    let right = (1..=ACCOUNTS).map(|i| i.to_string());
    if said.lines().eq(right) {
        return Ok(());
    }
    Err(Failure::Said(format!(
        "psql says {} lines of accounts, which are not all of 1 to {ACCOUNTS}: what carries them is broken",
        said.lines().count()
    )))
}

/// Of what pgbench says, if all `n` transactions went well.
fn rate(said: &str, n: u32) -> Result<f64, Failure> {
    let done = number(said, "actually processed:").ok_or_else(|| strange("pgbench", said))?;
    // Versions before 15 do not say it: there a transaction that fails ends its client.
    let failed = number(said, "failed transactions:").unwrap_or(0.0);
    if done != f64::from(n) || failed != 0.0 {
        return Err(Failure::Said(format!(
            "pgbench has done {done} of {n} transactions, and {failed} failed"
        )));
    }
    number(said, "tps =").ok_or_else(|| strange("pgbench", said))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_all_transactions_have_a_rate() {
        let said = |done: u32, failed: u32| {
            format!(
                "number of transactions actually processed: {done}/{done}\n\
                 number of failed transactions: {failed} (0.000%)\ntps = 5432.1 (without initial)\n"
            )
        };
        assert_eq!(rate(&said(100, 0), 100).unwrap(), 5432.1);
        assert!(rate(&said(99, 0), 100).is_err() && rate(&said(100, 1), 100).is_err());
        assert!(rate("", 0).is_err());
    }

    #[test]
    fn an_account_that_is_missing_is_found() {
        let all: Vec<_> = (1..=ACCOUNTS).map(|i| i.to_string()).collect();
        compare(&all.join("\n")).unwrap();
        assert!(compare(&all[1..].join("\n")).is_err());
    }
}
