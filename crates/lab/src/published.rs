//! Published figures of the sources, which are of other machines: to stand beside ours, in the sources' own order.
//!
//! Invariant: a figure never stands without its source and the words that it is of another machine; no ratio is made of
//! it and ours.
//! Not here: ours.
//!
//! Sources: published/*.csv, each from the document that `source` names.

/// A table as it was published.
#[derive(Clone, Debug)]
pub struct Table {
    pub title: String,
    pub source: &'static str,
    pub unit: &'static str,
    pub columns: Vec<String>,
    pub rows: Vec<Row>,
}

/// Its name, and a figure for each column.
pub type Row = (String, Vec<Option<f64>>);

const FIFO: &str = include_str!("../published/fifo_freebsd8_2009.csv");
const FIFO_SOURCE: &str =
    "Zhao Shuai, FIFO Optimization status 4, 25 July 2009: FreeBSD 8.0-CURRENT, Core 2 Quad 9400";
const LSE: &str = include_str!("../published/pipe_linux_lse.csv");
const LSE_SOURCE: &str = "Linux Scalability Effort, Pipe performance results: Linux 2.5, before 2004; LP: large pipes, \
                          ZC: zero copy";

const NETSTACK: &str = include_str!("../published/netstack_haiku_2008.csv");
const NETSTACK_SOURCE: &str = "Benchmarks für Networking Stack, 30 July 2008: O. Tappe's machines; MB of netperf -f M: 2^20 bytes";

/// A figure of the networking document.
#[derive(Clone, PartialEq, Debug)]
pub struct Network {
    /// The row that it is in: the system, whether it was in a virtual machine, before or after the changes.
    pub row: String,
    pub test: String,
    /// `send` or `recv`, where the document tells them apart.
    pub direction: String,
    pub value: f64,
}

/// All of one of its tables (`localhost`, `lan`, `ftp_520MB`), in its order.
pub fn network(table: &str) -> Vec<Network> {
    let own = lines(NETSTACK).into_iter().filter(|l| l[0] == table);
    own.filter_map(|l| {
        let machine = if l[3] == "yes" { "VM" } else { "native" };
        Some(Network {
            row: format!("{} ({machine}) {}", l[1], l[2]).trim_end().into(),
            test: l[4].clone(),
            direction: l[5].clone(),
            value: l[6].parse().ok()?,
        })
    })
    .collect()
}

/// The same as a table, with a column for each direction.
fn networks(table: &str, title: &str, unit: &'static str) -> Table {
    let all = network(table).into_iter();
    let (columns, rows) = of(all.map(|n| {
        let column = format!("{} {}", n.test, n.direction);
        (n.row, column.trim_end().into(), Some(n.value))
    }));
    Table {
        title: title.into(),
        source: NETSTACK_SOURCE,
        unit,
        columns,
        rows,
    }
}

/// Those of a workload; none for most.
pub fn tables(workload: &str) -> Vec<Table> {
    match workload {
        "fifo" => ["socket", "pipe"].map(fifo).into(),
        "bw-pipe" => lse("bw_pipe"),
        "pipeflex" => lse("pipeflex"),
        "grep" => lse("grep"),
        "netperf" => vec![
            networks(
                "localhost",
                "localhost: streams in MB/s, requests a second",
                "MB/s, 1/s",
            ),
            networks(
                "lan",
                "to a Linux server by Gigabit Ethernet: streams in MB/s, requests a second",
                "MB/s, 1/s",
            ),
        ],
        "ftp" => vec![networks("ftp_520MB", "FTP: a file of 520 MB", "MB/s")],
        _ => vec![],
    }
}

/// The lines of a file after its heading.
fn lines(text: &str) -> Vec<Vec<String>> {
    let mut r = csv::Reader::from_reader(text.as_bytes());
    let all = r.records().flatten();
    all.map(|l| l.iter().map(|f| f.trim().to_string()).collect())
        .collect()
}

/// A table of lines of (row, column, figure), both in the order in which they come.
fn of(lines: impl Iterator<Item = (String, String, Option<f64>)>) -> (Vec<String>, Vec<Row>) {
    let (mut columns, mut rows) = (Vec::<String>::new(), Vec::<Row>::new());
    for (row, column, v) in lines {
        let c = columns
            .iter()
            .position(|x| *x == column)
            .unwrap_or_else(|| {
                columns.push(column);
                columns.len() - 1
            });
        let r = rows.iter().position(|x| x.0 == row).unwrap_or_else(|| {
            rows.push((row, vec![]));
            rows.len() - 1
        });
        let cells = &mut rows[r].1;
        cells.resize(cells.len().max(c + 1), None);
        cells[c] = v;
    }
    rows.iter_mut()
        .for_each(|r| r.1.resize(columns.len(), None));
    (columns, rows)
}

fn fifo(implementation: &str) -> Table {
    let all = lines(FIFO).into_iter().filter(|l| l[0] == implementation);
    let (columns, rows) = of(all.map(|l| (l[1].clone(), l[2].clone(), l[3].parse().ok())));
    let what = match implementation {
        "socket" => "old, socket version",
        _ => "new, pipe version",
    };
    Table {
        title: format!(
            "{what}: mean time by message size (rows, bytes) and number of messages (columns)"
        ),
        source: FIFO_SOURCE,
        unit: "us",
        columns,
        rows,
    }
}

/// Two tables: pipes of 32 KiB, and those of 4 KiB on one CPU.
fn lse(benchmark: &str) -> Vec<Table> {
    let all = lines(LSE);
    let second = all
        .iter()
        .position(|l| l[2] == "LP(4k)")
        .unwrap_or(all.len());
    let (first, second) = all.split_at(second);
    let table = |lines: &[Vec<String>], number: usize| {
        let own = lines.iter().filter(|l| l[0] == benchmark);
        let (columns, rows) = of(own.map(|l| {
            let row = if l[3].is_empty() { "50MB" } else { &l[3] };
            let column = format!("{} {}", l[1], l[2]);
            (row.to_string(), column, l[4].parse().ok())
        }));
        Table {
            title: format!(
                "table {number}, {benchmark}: improvement over the base kernel by bytes of a transfer (rows)"
            ),
            source: LSE_SOURCE,
            unit: "%",
            columns,
            rows,
        }
    };
    vec![table(first, 1), table(second, 2)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_whole_and_in_their_order() {
        let t = &tables("fifo")[1];
        assert_eq!(t.columns, ["100", "1000", "5000", "10000", "100000"]);
        assert_eq!(
            t.rows.iter().map(|r| &r.0[..]).collect::<Vec<_>>(),
            ["64", "128", "256", "512", "1024", "2048", "4096"]
        );
        assert_eq!(t.rows[0].1[3], Some(753.0));
        let t = &tables("bw-pipe")[0];
        assert_eq!((t.columns.len(), t.rows.len()), (6, 10));
        assert_eq!(
            (t.columns[0].as_str(), t.rows[0].1[0]),
            ("2-way LP(32k)", Some(4.0))
        );
        assert_eq!(tables("grep")[0].rows.len(), 1);
        // One CPU, ZC, 2 KiB stands in both tables.
        let t = &tables("pipeflex")[1];
        assert_eq!((t.columns.len(), t.rows[9].1[2]), (3, Some(-87.0)));
        for w in ["fifo", "bw-pipe", "pipeflex", "grep"] {
            let cells = tables(w);
            assert!(
                cells
                    .iter()
                    .flat_map(|t| &t.rows)
                    .all(|r| r.1.iter().all(Option::is_some)),
                "{w}"
            );
        }
        assert!(tables("mbuf").is_empty());
        let t = &tables("netperf")[0];
        assert_eq!((t.columns.len(), t.rows.len()), (6, 8));
        assert_eq!(t.rows[7].0, "Haiku (native) after");
        assert_eq!(tables("netperf")[1].rows.len(), 2);
        assert_eq!(tables("ftp")[0].rows[0].1, [Some(51.0), Some(48.0)]);
        let n = |t| network(t).len();
        assert_eq!(
            n("localhost") + n("lan") + n("ftp_520MB"),
            lines(NETSTACK).len()
        );
    }
}
