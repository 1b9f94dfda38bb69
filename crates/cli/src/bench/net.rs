//! What the benchmarks of the network may be told, and `byway bench --serve`.
//!
//! Invariant: as in flags.rs: words that cannot be used are a sentence with what to give instead. Nothing listens on, or
//! connects to, another address than the loopback's unless it is told to.
//! Not here: what they do (crate lab, net).
use super::flags::Wanted;
use crate::tell::tell;
use byway_lab::interrupt;
use byway_lab::net::ftp::Ftp;
use byway_lab::net::netperf::workload::Netperf;
use byway_lab::net::netpipe::workload::Netpipe;
use byway_lab::net::place::{Hosts, Place};
use byway_lab::net::session;
use byway_lab::net::socket::Buffers;
use byway_lab::net::{netperf, netpipe};
use byway_lab::pairs::start::Byway;
use clap::{Args, ValueEnum};
use std::fmt::Arguments;
use std::io::Write;
use std::path::Path;

/// Where the other side is.
#[derive(Args)]
#[command(next_help_heading = "Hosts")]
pub struct Where {
    /// Two hosts, made here as network namespaces, as root
    #[arg(long, value_name = "WHICH", conflicts_with = "peer")]
    hosts: Option<Made>,
    /// Two hosts: the other runs `byway bench --serve ADDRESS`
    #[arg(long, value_name = "HOST[:PORT]")]
    peer: Option<String>,
    /// Only this way for the bytes; may be given again; all if not given
    #[arg(long = "backend", value_name = "NAME")]
    backends: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Made {
    Veth,
}

impl Where {
    fn hosts(&self) -> Result<Hosts, String> {
        Ok(match (&self.peer, self.hosts) {
            (Some(p), _) => Hosts::Peer(session::address(p)?),
            (None, Some(Made::Veth)) => Hosts::Veth,
            (None, None) => Hosts::Here,
        })
    }

    fn place(&self, w: &Wanted, exe: &Path) -> Result<Place, String> {
        Ok(Place::new(self.hosts()?, w.places()?, Byway::new(exe)))
    }
}

/// What `bench netpipe` may be told as well: the options of NPtcp.
#[derive(Args)]
pub struct Pipe {
    #[command(flatten)]
    pub wanted: Wanted,
    /// Only stream mode: blocks go one way
    #[arg(short = 's', long)]
    stream: bool,
    /// Smallest block, bytes
    #[arg(short = 'l', long, value_name = "BYTES", default_value_t = 1)]
    lower: usize,
    /// Largest block, bytes
    #[arg(short = 'u', long, value_name = "BYTES", default_value_t = 8 << 20)]
    upper: usize,
    /// Sizes so many bytes beside each, too [default: 3, or 0 with --quick]
    #[arg(short = 'p', long, value_name = "BYTES", value_parser = clap::value_parser!(u16))]
    perturbation: Option<u16>,
    /// Send each block so often [default: what fills 5 ms, or 2 with --quick]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    repeats: Option<u32>,
    /// Check what arrives in place of measuring
    #[arg(short = 'i', long)]
    check: bool,
    /// Buffers of sockets, bytes; the system's own if not given
    #[arg(short = 'b', long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=64 << 20))]
    buffer: Option<u32>,
    #[command(flatten)]
    place: Where,
}

impl Pipe {
    fn options(&self) -> netpipe::Options {
        let buffer = self.buffer.unwrap_or(0) as usize;
        let usual = netpipe::Options::usual(self.wanted.quick);
        netpipe::Options {
            stream: self.stream,
            lower: self.lower,
            upper: self.upper,
            perturbation: self.perturbation.map_or(usual.perturbation, usize::from),
            repeats: self.repeats.unwrap_or(0).into(),
            check: self.check,
            buffers: Buffers {
                send: buffer,
                receive: buffer,
            },
            ..usual
        }
    }

    /// The workload, of the program at `exe`.
    pub fn workload(&self, exe: &Path) -> Result<Netpipe, String> {
        let place = self.place.place(&self.wanted, exe)?;
        Netpipe::new(
            place,
            self.options(),
            self.wanted.quick,
            &self.place.backends,
        )
    }
}

/// What `bench netperf` may be told as well: the options of netperf.
#[derive(Args)]
pub struct Perf {
    #[command(flatten)]
    pub wanted: Wanted,
    /// Seconds that a run takes [default: 1, or 0.2 with --quick]
    #[arg(short = 'l', long, value_name = "S")]
    length: Option<f64>,
    /// Bytes of each send of a stream
    #[arg(short = 'm', long, value_name = "BYTES", default_value_t = 32_768)]
    message: usize,
    /// Client's buffers, bytes; 0: the system's own
    #[arg(short = 's', long, value_name = "SEND,RECV", value_delimiter = ',', num_args = 1..=2, default_values_t = [65_500, 65_500])]
    local: Vec<usize>,
    /// Server's buffers, bytes; 0: the system's own
    #[arg(short = 'S', long, value_name = "SEND,RECV", value_delimiter = ',', num_args = 1..=2, default_values_t = [65_500, 65_500])]
    remote: Vec<usize>,
    /// Bytes of a request and of its response
    #[arg(short = 'r', long, value_name = "REQUEST,RESPONSE", value_delimiter = ',', num_args = 1..=2, default_values_t = [1, 1])]
    request: Vec<usize>,
    /// Check what arrives in place of measuring
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    place: Where,
}

/// One figure is both, as netperf has it.
fn two(option: &str, v: &[usize]) -> Result<[usize; 2], String> {
    match *v {
        [both] => Ok([both, both]),
        [a, b] => Ok([a, b]),
        _ => Err(format!(
            "{option} takes one or two figures, such as 65500,65500"
        )),
    }
}

impl Perf {
    fn options(&self) -> Result<netperf::Options, String> {
        let usual = netperf::Options::usual(self.wanted.quick);
        let ms = match self.length {
            Some(s) if (0.01..=60.0).contains(&s) => (s * 1e3) as u64,
            Some(s) => {
                return Err(format!(
                    "-l {s} is no time for a run; give 0.01 to 60 seconds"
                ));
            }
            None => usual.ms,
        };
        let buffers = |option, v| {
            let [send, receive] = two(option, v)?;
            Ok::<_, String>(Buffers { send, receive })
        };
        let [request, response] = two("-r", &self.request)?;
        Ok(netperf::Options {
            message: self.message,
            local: buffers("-s", &self.local)?,
            remote: buffers("-S", &self.remote)?,
            request,
            response,
            ms,
            check: self.check,
        })
    }

    /// The workload, of the program at `exe`.
    pub fn workload(&self, exe: &Path) -> Result<Netperf, String> {
        let place = self.place.place(&self.wanted, exe)?;
        let options = self.options()?;
        Netperf::new(place, options, self.wanted.quick, &self.place.backends)
    }
}

/// What `bench ftp` may be told as well.
#[derive(Args)]
pub struct File {
    #[command(flatten)]
    pub wanted: Wanted,
    /// Size of the file, MB [default: 520, or 100 with --quick]
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    size: Option<u64>,
    #[command(flatten)]
    place: Where,
}

/// The usual size of the file, MB.
pub fn megabytes(quick: bool) -> u64 {
    if quick { 100 } else { 520 }
}

impl File {
    /// The workload, of the program at `exe`.
    pub fn workload(&self, exe: &Path) -> Result<Ftp, String> {
        let place = self.place.place(&self.wanted, exe)?;
        let quick = self.wanted.quick;
        let size = self.size.unwrap_or(megabytes(quick));
        Ftp::new(place, size, quick, &self.place.backends)
    }
}

/// In this machine, as a workload is without options of its own.
pub fn here(w: &Wanted, exe: &Path) -> Result<Place, String> {
    Ok(Place::new(Hosts::Here, w.places()?, Byway::new(exe)))
}

/// Serves whoever asks at `at`, one after the other, until Ctrl-C; 2 if it cannot. It goes on where nobody reads what it says.
pub fn serve(at: &str) -> i32 {
    let listening = session::address(at).and_then(|at| {
        let l = session::listen(at)?;
        let at = l.local_addr().map_err(|e| e.to_string())?;
        at.as_socket()
            .map(|at| (l, at))
            .ok_or(format!("{at:?} is no address"))
    });
    let (l, at) = match listening {
        Ok(found) => found,
        Err(e) => {
            tell(&format!("bench --serve: {e}"));
            return 2;
        }
    };
    let say = |line: Arguments| drop(writeln!(std::io::stdout(), "{line}"));
    say(format_args!(
        "serving netpipe and netperf at {at}, for `--peer {at}`; Ctrl-C ends it"
    ));
    if at.ip().is_loopback() {
        say(format_args!(
            "only for this machine; give an address of it to serve others too"
        ));
    }
    let served = session::serve(&l, |from, done| {
        match done {
            Ok(what) => say(format_args!("{from}: {what:?}")),
            Err(e) => tell(&format!("bench --serve: {from}: {e}")),
        }
        !interrupt::asked()
    });
    match served {
        Ok(()) => 0,
        Err(e) => {
            tell(&format!("bench --serve: {e}"));
            2
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byway_lab::workload::Workload;
    use clap::Parser;

    #[derive(Parser)]
    struct PipeLine {
        #[command(flatten)]
        pipe: Pipe,
    }
    #[derive(Parser)]
    struct PerfLine {
        #[command(flatten)]
        perf: Perf,
    }

    fn netpipe_of(words: &str) -> Result<Netpipe, String> {
        let line = PipeLine::try_parse_from(words.split(' ')).map_err(|e| e.to_string())?;
        line.pipe.workload(Path::new("byway"))
    }
    fn netperf_of(words: &str) -> Result<Netperf, String> {
        let line = PerfLine::try_parse_from(words.split(' ')).map_err(|e| e.to_string())?;
        line.perf.workload(Path::new("byway"))
    }

    #[test]
    fn the_options_of_nptcp() {
        let w = netpipe_of("x -l 64 -u 4096 -p 0 -n 7 -b 65536").unwrap();
        let p = w.parameters();
        for (name, value) in [
            ("lower", 64),
            ("upper", 4096),
            ("perturbation", 0),
            ("repeats", 7),
            ("buffer", 65_536),
        ] {
            assert_eq!(p[name], value, "{name}");
        }
        assert_eq!(w.cases(), ["block", "stream"]);
        assert_eq!(netpipe_of("x -s").unwrap().cases(), ["stream"]);
    }

    #[test]
    fn the_options_of_netperf() {
        let w = netperf_of("x -m 1000 -s 10,20 -S 30 -r 128,8192 -l 2").unwrap();
        let p = w.parameters();
        assert_eq!(p["message"], 1000);
        assert_eq!(p["local_buffers"], serde_json::json!([10, 20]));
        assert_eq!(p["remote_buffers"], serde_json::json!([30, 30]));
        assert_eq!((&p["request"], &p["response"]), (&128.into(), &8192.into()));
        assert_eq!(p["run_ms"], 2000);
        let p = netperf_of("x").unwrap().parameters();
        assert_eq!(
            (&p["message"], &p["run_ms"]),
            (&32_768.into(), &1000.into())
        );
        assert_eq!(p["local_buffers"], serde_json::json!([65_500, 65_500]));
    }

    #[test]
    fn words_that_cannot_be_have_a_remedy() {
        let e = |r: Result<Netpipe, String>| r.err().unwrap();
        assert!(e(netpipe_of("x -u 100000000")).contains("or less"));
        assert!(e(netpipe_of("x -l 0")).contains("at least 1"));
        assert!(e(netpipe_of("x -l 9 -u 8")).contains("not less"));
        assert!(e(netpipe_of("x --backend ring")).contains("there are: tcp"));
        assert!(e(netpipe_of("x --hosts veth --backend pipe")).contains("byway-tcp"));
        assert!(e(netpipe_of("x --peer no.such.host.invalid")).contains("HOST"));
        assert!(netpipe_of("x --hosts veth --peer a").is_err());
        let e = |r: Result<Netperf, String>| r.err().unwrap();
        assert!(e(netperf_of("x -l 0")).contains("give"));
        assert!(e(netperf_of("x -s 1,2,3")).contains("figures"));
    }
}
