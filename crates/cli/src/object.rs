//! `byway doctor --object`: what the rewriter makes of ELF objects, site by site, for those who want to check it.
//!
//! Invariant: it shows what a run would use, and writes no file.
//! Not here: the scan itself (rewrite/).
use crate::rewrite::{self, Scan};
use serde::Serialize;
use std::ffi::OsString;
use std::path::Path;

/// One object. Addresses are those of the ELF file.
#[derive(Serialize)]
struct Look {
    path: String,
    /// `clean`: nothing to rewrite; `rewritten`; `unable`: a process with it takes no part.
    verdict: &'static str,
    /// Why it cannot be rewritten.
    why: String,
    /// Pairs of bytes 0f 05 that no function holds: data.
    data: u32,
    sites: Vec<Site>,
}

/// One place that is rewritten.
#[derive(Serialize)]
struct Site {
    /// The start of the function that proves it.
    function: Option<u64>,
    /// The bytes from `from` to before `to` are replaced; of a `bridge` only the distance of that call.
    from: u64,
    to: u64,
    /// The system call's instruction.
    call: u64,
    kind: &'static str,
    /// The numbers of the calls, if they are known.
    number: Option<Vec<u64>>,
}

/// Prints a line an object, JSON if `json`; 2 if one cannot be read.
pub fn print(files: &[OsString], json: bool) -> i32 {
    let mut status = 0;
    for f in files {
        let bytes = match std::fs::read(f) {
            Ok(v) => v,
            Err(e) => {
                eprintln!("byway: doctor: cannot read {}: {e}", Path::new(f).display());
                status = 2;
                continue;
            }
        };
        let look = look(Path::new(f), &bytes);
        if json {
            println!("{}", serde_json::to_string(&look).expect("plain fields"));
        } else {
            println!("{}", sentence(&look));
        }
    }
    status
}

fn look(path: &Path, bytes: &[u8]) -> Look {
    let mut look = Look {
        path: path.display().to_string(),
        verdict: "unable",
        why: String::new(),
        data: 0,
        sites: Vec::new(),
    };
    match rewrite::scan(bytes) {
        Ok(scan) => {
            look.data = scan.data;
            look.sites = sites(&scan);
            match rewrite::object(&scan) {
                rewrite::Object::Clean(_) => look.verdict = "clean",
                rewrite::Object::Shadow(..) => look.verdict = "rewritten",
                rewrite::Object::Unable(why) => look.why = why,
            }
        }
        Err(why) => look.why = why,
    }
    look
}

fn sites(scan: &Scan) -> Vec<Site> {
    let own = scan.sites.iter().map(|s| Site {
        function: Some(s.function),
        from: s.start,
        to: s.replaced(),
        call: s.syscall,
        kind: "site",
        number: s.numbers.clone(),
    });
    let calls = scan.bridge.iter().flat_map(|b| &b.calls).map(|i| Site {
        function: None,
        from: i.ip(),
        to: i.next_ip(),
        call: i.ip(),
        kind: "bridge",
        number: None,
    });
    own.chain(calls).collect()
}

fn sentence(l: &Look) -> String {
    let data = match l.data {
        0 => String::new(),
        n => format!("; {n} times 0f 05 in data"),
    };
    match l.verdict {
        "clean" => format!("{}: no system call of interest{data}", l.path),
        "rewritten" => format!("{}: {} sites{data}", l.path, l.sites.len()),
        _ => format!("{}: takes no part: {}", l.path, l.why),
    }
}
