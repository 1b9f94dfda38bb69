//! A record of these benchmarks as text: a line for each backend of a case, with its ratios to the kernel's backends.
//!
//! Invariant: no line is longer than 79 characters; no colours.
//! Not here: units or statistics; the table of `fifo` (fifo_text.rs).
use super::{Backend, Bench, Plan};
use crate::record::Record;

/// How wide the names of the cases are.
fn first(bench: Bench) -> usize {
    match bench {
        Bench::Ready => 16,
        _ => 8,
    }
}

/// The heading of the lines of `lines`.
pub fn heading(bench: Bench) -> String {
    let over: String = bench
        .over()
        .iter()
        .map(|o| format!("{:>14}", format!("x {o}")))
        .collect();
    format!(
        "{:<wide$}{:<14}{:>9} {:<5} {:<13}{over}",
        "case",
        "backend",
        "median",
        "unit",
        "95 %",
        wide = first(bench)
    )
}

/// A figure in four characters or so.
pub fn short(v: f64) -> String {
    match v {
        v if v < 10.0 => format!("{v:.2}"),
        v if v < 100.0 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

/// An interval; of one round there is none.
pub fn range(ci95: [f64; 2]) -> String {
    if ci95[0] == ci95[1] {
        return "-".into();
    }
    format!("{}-{}", short(ci95[0]), short(ci95[1]))
}

/// A line for each backend of `case`.
pub fn lines(record: &Record, bench: Bench, case: &str, plan: &Plan) -> Vec<String> {
    let (metric, ..) = bench.metric(case);
    let line = |b: &Backend| {
        let row = record
            .results
            .iter()
            .find(|r| r.case == case && r.backend == b.name && r.metric == metric)?;
        let ratio = |over: &&str| {
            let found = record.ratios.iter().find(|q| {
                q.case == case && q.backend == b.name && q.over == **over && q.metric == metric
            });
            format!("{:>14}", found.map_or(String::new(), |q| short(q.ratio)))
        };
        let text = format!(
            "{:<wide$}{:<14}{:>9} {:<5} {:<13}{}",
            case,
            b.name,
            short(row.median),
            row.unit,
            range(row.ci95),
            bench.over().iter().map(ratio).collect::<String>(),
            wide = first(bench)
        );
        Some(text.trim_end().to_string())
    };
    bench.backends(plan).iter().filter_map(line).collect()
}

/// What the figures of `bench` are, in a sentence or two.
pub fn about(bench: Bench) -> &'static str {
    match bench {
        Bench::Fifo => "elapsed: from the producer's first write to the consumer's last read",
        Bench::BwPipe => {
            "MB/s one way; vmsplice: its writer must leave its bytes alone; memcpy: one copy, no pipe"
        }
        Bench::Pipeflex => {
            "MB/s of all pipes; readers and writers compute between their calls; vmsplice: its writer must leave its bytes \
             alone; memcpy: one process, which copies once what a read has and computes as the reader does, no pipe"
        }
        Bench::LatPipe => {
            "spin: a round trip; sleep: one way, to a reader that sleeps in the kernel; byway-core and kernel there \
             in turn, by one pair of processes, the others by a pair each; % over base: of times, 100 is half the time"
        }
        Bench::Ready => {
            "poll-stream: MB/s to a reader that polls before each read; epoll-rtt: a round trip, each side in epoll_wait; \
             epoll-asleep: one way, to a reader that sleeps in epoll_wait; \
             epoll-N: messages of 64 B through 10 pipes (of 10000: 1) of a set of N; epoll-plain: through 10 eventfds; \
             node-child, asyncio-child: MB/s from cat to node, and to python's asyncio"
        }
        Bench::Grep => {
            "cat 50 MB | grep -c nosuchpattern, the shell's start included; kernel-1m: on a pipe that the harness made; \
             vmsplice: a program that maps the file and gives its pages, for cat; memcpy: one copy of the file by one \
             thread, no shell, cat or grep"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Better;

    #[test]
    fn fits_eighty_columns() {
        let mut plan = Plan::new(vec![0], false);
        plan.pipes = super::super::PIPES.map(|p| p.0).into();
        for bench in Bench::ALL {
            let mut r = Record::new(bench.name());
            for case in bench.cases(&plan) {
                let (metric, unit, _) = bench.metric(&case);
                for b in bench.backends(&plan) {
                    let rounds = [vec![123_456.7], vec![199_999.9]];
                    r.row(&case, b.name, (metric, unit, None), &rounds);
                    for over in bench.over() {
                        let (new, old) = ([vec![1.0]], [vec![12345.0]]);
                        r.ratio(&case, metric, Better::Less, (b.name, &new), (over, &old));
                    }
                }
                if bench != Bench::Fifo {
                    let v = lines(&r, bench, &case, &plan);
                    assert_eq!(v.len(), bench.backends(&plan).len());
                    assert!(v.iter().all(|l| l.len() < 80), "{v:?}");
                }
            }
            assert!(heading(bench).len() < 80, "{}", heading(bench));
        }
    }
}
