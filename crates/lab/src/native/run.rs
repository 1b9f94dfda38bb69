//! One run: a pair of processes with a way between them, or two, and what it took.
//!
//! Invariant: some records go before those that count, a tenth as many but of sleepers (turns.rs), and round trips for `WARM_NS`; every record that was sent is
//! received before a run ends, and its number looked at; until then both ends stay.
//! Not here: the ways (way.rs), how often a run is repeated (mod.rs).
use super::case::{Case, Kind};
use super::kernel::{Kernel, Object};
use super::limit::{self, Word};
use super::ours::{Ours, Stream};
use super::way::{Need, Receiver, Sender, Way};
use super::zeromq::Zeromq;
use crate::child::{Failure, now};
use crate::machine;
use crate::pairs::pair::{board, pair};
use crate::pairs::turns::turns;
use crate::stats;
use byway_sys::process;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// What it took.
pub struct Done {
    /// Of one record, or of both ways of one.
    pub ns: f64,
    /// Records that were not those that were sent.
    pub wrong: u64,
}

impl From<Done> for Vec<f64> {
    fn from(d: Done) -> Vec<f64> {
        vec![d.ns, d.wrong as f64]
    }
}

impl Done {
    /// The same, back.
    ///
    /// # Errors
    /// It is something else.
    pub fn parse(figures: &[f64]) -> Result<Done, Failure> {
        let &[ns, wrong] = figures else {
            return Err(Failure::Said("a run said what it should not".into()));
        };
        let wrong = wrong as u64;
        Ok(Done { ns, wrong })
    }
}

/// The pause before each record that is to find a sleeper, longer than anybody spins, us.
pub const PAUSE_US: u64 = 200;

/// How long round trips go before those that count, ns: some ten thousand of two words, so that memory that is used in turn is there.
const WARM_NS: u64 = 20_000_000;

/// Runs `case` by a backend that is here, in a process that has no other children: `n` records count.
///
/// # Errors
/// No process, memory or descriptor could be had, or one of the pair died.
pub fn run(case: Case, kind: Kind, cpus: &[usize], n: u64) -> Result<Done, Failure> {
    match kind {
        _ if case == Case::WakeSleep && TOGETHER.contains(&kind) => unreachable!("in turn"),
        Kind::Byway | Kind::BywayRecords => by(case, |need| Ours::new(need, false), cpus, n),
        Kind::BywayCopy => by(case, |need| Ours::new(need, true), cpus, n),
        Kind::Zeromq => by(case, Zeromq::new, cpus, n),
        Kind::Unix => by(case, |need| Kernel::new(need, Object::Unix), cpus, n),
        Kind::Pipe => by(case, |need| Kernel::new(need, Object::Pipe), cpus, n),
        Kind::Eventfd => by(case, |need| Kernel::new(need, Object::Eventfd), cpus, n),
        Kind::Limit if case == Case::RttSpin => by(case, Word::new, cpus, n),
        Kind::Limit => {
            machine::bind(&cpus[..1]);
            let ns = limit::memcpy(case.bytes(), n);
            Ok(Done { ns, wrong: 0 })
        }
        Kind::Iceoryx2 | Kind::Multiprocessing => unreachable!("a program of its own"),
    }
}

/// The same by ways that `make` makes.
///
/// # Errors
/// As `run`.
pub fn by<W: Way>(
    case: Case,
    make: impl Fn(Need) -> io::Result<W>,
    cpus: &[usize],
    n: u64,
) -> Result<Done, Failure> {
    let need = case.need(cpus);
    let way = make(need)?;
    match case {
        Case::RttSpin => round_trip(&way, &make(need)?, cpus, n),
        Case::WakeSleep => Ok(wake(&[&way], cpus, n as usize)?.remove(0)),
        _ => one_way(&way, cpus, n),
    }
}

/// Counts what came instead of what was sent. Only one process has a counter.
fn check(got: u64, sent: u64, wrong: &AtomicU64) {
    if got != sent {
        wrong.store(wrong.load(Relaxed) + 1, Relaxed);
    }
}

/// Of records whose time the receiver took as a whole.
fn each(time: &AtomicU64, n: u64, wrong: &AtomicU64) -> Done {
    Done {
        ns: time.load(Relaxed) as f64 / n as f64,
        wrong: wrong.load(Relaxed),
    }
}

fn one_way(way: &impl Way, cpus: &[usize], n: u64) -> Result<Done, Failure> {
    let board = board(2)?;
    let (time, wrong) = (&board[0], &board[1]);
    let warm = n / 10;
    pair(
        cpus,
        |gate| {
            let mut out = way.sender()?;
            gate.pass();
            for i in 0..warm + n {
                out.send(i)?;
            }
            gate.pass();
            Ok(())
        },
        |gate| {
            let mut from = way.receiver()?;
            gate.pass();
            let mut began = now();
            for i in 0..warm + n {
                if i == warm {
                    began = now();
                }
                check(from.receive()?, i, wrong);
            }
            time.store(now() - began, Relaxed);
            gate.pass();
            Ok(())
        },
    )?;
    Ok(each(time, n, wrong))
}

fn round_trip(to: &impl Way, fro: &impl Way, cpus: &[usize], n: u64) -> Result<Done, Failure> {
    let board = board(3)?;
    let (time, wrong, all) = (&board[0], &board[1], &board[2]);
    pair(
        cpus,
        |gate| {
            let (mut out, mut back) = (to.sender()?, fro.receiver()?);
            let mut there_and_back = |i| -> io::Result<()> {
                out.send(i)?;
                check(back.receive()?, i, wrong);
                Ok(())
            };
            gate.pass();
            let (start, mut warm) = (now(), 0);
            while warm < n / 10 || now() - start < WARM_NS {
                there_and_back(warm)?;
                warm += 1;
            }
            // ORDER: told before the records are sent that it counts.
            all.store(warm + n, Release);
            let began = now();
            for i in warm..warm + n {
                there_and_back(i)?;
            }
            time.store(now() - began, Relaxed);
            gate.pass();
            Ok(())
        },
        |gate| {
            let (mut from, mut back) = (to.receiver()?, fro.sender()?);
            gate.pass();
            let mut had = 0;
            // ORDER: as above.
            while had == 0 || had != all.load(Acquire) {
                back.send(from.receive()?)?;
                had += 1;
            }
            gate.pass();
            Ok(())
        },
    )?;
    Ok(each(time, n, wrong))
}

/// The ends of a way, whichever it is.
trait Ends {
    fn out(&self) -> io::Result<Box<dyn Sender + '_>>;
    fn from(&self) -> io::Result<Box<dyn Receiver + '_>>;
}

impl<W: Way> Ends for W {
    fn out(&self) -> io::Result<Box<dyn Sender + '_>> {
        Ok(Box::new(self.sender()?))
    }
    fn from(&self) -> io::Result<Box<dyn Receiver + '_>> {
        Ok(Box::new(self.receiver()?))
    }
}

/// Of each way the median of `n` wake-ups; in turn, if there are several.
fn wake(ways: &[&dyn Ends], cpus: &[usize], n: usize) -> Result<Vec<Done>, Failure> {
    let order = turns(ways.len(), n);
    let board = board(1 + ways.len() + order.len())?;
    let (arrived, rest) = (&board[0], &board[1..]);
    let (wrong, times) = rest.split_at(ways.len());
    pair(
        cpus,
        |gate| {
            let mut out: Vec<_> = ways.iter().map(|w| w.out()).collect::<Result<_, _>>()?;
            let mut sent = vec![0; ways.len()];
            gate.pass();
            for (i, &(way, _)) in order.iter().enumerate() {
                let out = &mut out[way];
                process::nap(PAUSE_US);
                let began = now();
                out.send(sent[way])?;
                // ORDER: the time that the receiver left comes with its count.
                while arrived.load(Acquire) <= i as u64 {
                    process::nap(PAUSE_US / 4);
                }
                times[i].store(times[i].load(Relaxed) - began, Relaxed);
                sent[way] += 1;
            }
            gate.pass();
            Ok(())
        },
        |gate| {
            let mut from: Vec<_> = ways.iter().map(|w| w.from()).collect::<Result<_, _>>()?;
            let mut got = vec![0; ways.len()];
            gate.pass();
            for (i, &(way, _)) in order.iter().enumerate() {
                let record = from[way].receive()?;
                times[i].store(now(), Relaxed);
                check(record, got[way], &wrong[way]);
                got[way] += 1;
                // ORDER: as above.
                arrived.store(i as u64 + 1, Release);
            }
            gate.pass();
            Ok(())
        },
    )?;
    let of = |way: usize| {
        let own = order.iter().zip(times).filter(|(o, _)| **o == (way, true));
        let ns: Vec<_> = own.map(|(_, t)| t.load(Relaxed) as f64).collect();
        Done {
            ns: stats::median(&ns),
            wrong: wrong[way].load(Relaxed),
        }
    };
    Ok((0..ways.len()).map(of).collect())
}

/// Of `wake-sleep`, those that one pair of processes measures in turn: who needs nothing but descriptors and memory.
pub const TOGETHER: [Kind; 5] = [
    Kind::Byway,
    Kind::BywayRecords,
    Kind::Unix,
    Kind::Pipe,
    Kind::Eventfd,
];

/// Runs them, as `run` does one.
///
/// # Errors
/// As `run`.
pub fn together(cpus: &[usize], n: u64) -> Result<Vec<Done>, Failure> {
    let need = Case::WakeSleep.need(cpus);
    let kernel = |object| Kernel::new(need, object);
    let (bytes, records) = (Stream::new(need)?, Ours::new(need, false)?);
    let (unix, pipe) = (kernel(Object::Unix)?, kernel(Object::Pipe)?);
    let eventfd = kernel(Object::Eventfd)?;
    let ways: [&dyn Ends; TOGETHER.len()] = [&bytes, &records, &unix, &pipe, &eventfd];
    wake(&ways, cpus, n as usize)
}
