//! The cases of `services` and of `originals`: a service or a tool, how many clients ask it, and how much they ask.
//!
//! Invariant: a run of a service asks for a fixed amount, so both backends do the same work. So does NPtcp; the other tools
//! work for a fixed time.
//! Not here: how each is started and asked (redis.rs, memcached.rs, postgres.rs, nginx.rs, originals.rs).
use super::{memcached, nginx, originals, postgres, redis};
use crate::program;
use crate::record::Better;
use std::path::PathBuf;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Service {
    Redis,
    Memcached,
    Postgres,
    Nginx,
    Nptcp,
    Iperf3,
    Sockperf,
    Wrk,
    Netperf,
}

impl Service {
    pub const ALL: [Service; 9] = [
        Service::Redis,
        Service::Memcached,
        Service::Postgres,
        Service::Nginx,
        Service::Nptcp,
        Service::Iperf3,
        Service::Sockperf,
        Service::Wrk,
        Service::Netperf,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Service::Redis => "redis",
            Service::Memcached => "memcached",
            Service::Postgres => "postgres",
            Service::Nginx => "nginx",
            Service::Nptcp => "nptcp",
            Service::Iperf3 => "iperf3",
            Service::Sockperf => "sockperf",
            Service::Wrk => "wrk",
            Service::Netperf => "netperf",
        }
    }

    /// Programs that it needs.
    fn programs(self) -> &'static [&'static str] {
        match self {
            Service::Redis => &redis::PROGRAMS,
            Service::Memcached => &memcached::PROGRAMS,
            Service::Postgres => &postgres::PROGRAMS,
            Service::Nginx => &nginx::PROGRAMS,
            Service::Nptcp => &["NPtcp"],
            Service::Iperf3 => &["iperf3"],
            Service::Sockperf => &["sockperf"],
            Service::Wrk => &["wrk", "nginx"],
            Service::Netperf => &["netserver", "netperf"],
        }
    }

    /// Debian's packages of them.
    fn packages(self) -> &'static str {
        match self {
            Service::Redis => "redis-server redis-tools",
            Service::Memcached => "memcached",
            Service::Postgres => "postgresql",
            Service::Nginx => "nginx apache2-utils",
            Service::Nptcp => "netpipe-tcp",
            Service::Iperf3 => "iperf3",
            Service::Sockperf => "sockperf",
            Service::Wrk => "wrk nginx",
            Service::Netperf => "netperf, which is in Debian's part non-free",
        }
    }

    /// A program that it needs and that is not here: a sentence with the remedy.
    pub fn missing(self) -> Option<String> {
        let mut all = self.programs().iter();
        let program = all.find(|p| find(p).is_none())?;
        Some(format!(
            "{program} is not installed; on Debian, as root: apt-get install {}",
            self.packages()
        ))
    }
}

/// Where a program is: servers are not on everybody's path, and PostgreSQL's programs on nobody's.
pub fn find(name: &str) -> Option<PathBuf> {
    // Debian's psql and pgbench on the path are scripts that look for these.
    if postgres::PROGRAMS.contains(&name) {
        return postgres::find(name);
    }
    program::find(name, &["/usr/sbin", "/usr/local/sbin"])
}

/// A metric of a case, and which way it is good.
pub type Figure = (&'static str, &'static str, Better);

#[derive(Clone, Copy)]
pub struct Case {
    pub id: &'static str,
    pub service: Service,
    pub clients: u32,
    /// Requests that a client sends before it waits for an answer.
    pub depth: u32,
    /// Bytes of a message, where the tool is told.
    pub size: u32,
    /// Requests of all clients together in a usual run, and with --quick; blocks of NPtcp, s of other tools.
    amount: [u32; 2],
}

const fn case(
    id: &'static str,
    service: Service,
    [clients, depth]: [u32; 2],
    amount: [u32; 2],
) -> Case {
    Case {
        id,
        service,
        clients,
        depth,
        size: 0,
        amount,
    }
}

const fn tool(
    id: &'static str,
    service: Service,
    clients: u32,
    size: u32,
    amount: [u32; 2],
) -> Case {
    Case {
        size,
        ..case(id, service, [clients, 1], amount)
    }
}

/// s of a run of a tool that works for a time: it takes whole seconds.
const TIME: [u32; 2] = [3, 1];
pub const ORIGINALS: [Case; 13] = [
    tool("nptcp-1", Service::Nptcp, 1, 1, [20_000, 4_000]),
    tool("nptcp-64k", Service::Nptcp, 1, 64 << 10, [4_000, 1_000]),
    tool("nptcp-1m", Service::Nptcp, 1, 1 << 20, [400, 100]),
    tool("iperf3-32k", Service::Iperf3, 1, originals::SEED, TIME),
    tool("iperf3-128k", Service::Iperf3, 1, 128 << 10, TIME),
    tool("sockperf-tcp", Service::Sockperf, 1, 14, TIME),
    tool("sockperf-udp", Service::Sockperf, 1, 14, TIME),
    tool("wrk-1", Service::Wrk, 1, 0, TIME),
    tool("wrk-8", Service::Wrk, 8, 0, TIME),
    tool(
        "netperf-tcp_stream",
        Service::Netperf,
        1,
        originals::SEED,
        TIME,
    ),
    tool("netperf-tcp_rr", Service::Netperf, 1, 1, TIME),
    tool("netperf-tcp_crr", Service::Netperf, 1, 1, TIME),
    tool("netperf-udp_rr", Service::Netperf, 1, 1, TIME),
];

pub const CASES: [Case; 7] = [
    case("redis-1", Service::Redis, [1, 1], [30_000, 5_000]),
    case("redis-50", Service::Redis, [50, 1], [100_000, 20_000]),
    case("redis-50x16", Service::Redis, [50, 16], [400_000, 100_000]),
    case(
        "memcached-50",
        Service::Memcached,
        [50, 1],
        [100_000, 20_000],
    ),
    case("postgres-1", Service::Postgres, [1, 1], [10_000, 2_000]),
    case("postgres-8", Service::Postgres, [8, 1], [20_000, 4_000]),
    case("nginx-8", Service::Nginx, [8, 1], [20_000, 4_000]),
];

impl Case {
    pub fn of(id: &str) -> Option<&'static Case> {
        CASES.iter().chain(&ORIGINALS).find(|c| c.id == id)
    }

    /// What a run gives, in this order; the first is the one that is compared.
    pub fn figures(&self) -> &'static [Figure] {
        const MORE: Better = Better::More;
        match self.service {
            Service::Redis => &[("get", "1/s", MORE), ("set", "1/s", MORE)],
            Service::Nptcp | Service::Sockperf => &[("latency", "us", Better::Less)],
            Service::Iperf3 => &[("receive", "MiB/s", MORE)],
            Service::Netperf if self.id.ends_with("stream") => &[("receive", "MiB/s", MORE)],
            _ => &[("rate", "1/s", MORE)],
        }
    }

    pub fn amount(&self, quick: bool) -> u32 {
        self.amount[usize::from(quick)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_asks_as_often_as_any() {
        for c in CASES.iter().chain(&ORIGINALS) {
            assert_eq!(Case::of(c.id).unwrap().id, c.id);
            assert!(!c.figures().is_empty());
            assert!(c.id.len() < 21, "{} is longer than its column", c.id);
            assert!(c.id.starts_with(c.service.name()));
            // A tool that works for a time has no share of a client's.
            for quick in [false, true].into_iter().filter(|_| c.amount != TIME) {
                assert_eq!(c.amount(quick) % (c.clients * c.depth), 0, "{}", c.id);
            }
            assert!(c.amount(true) < c.amount(false));
        }
    }

    #[test]
    fn what_is_not_here_is_named_with_its_package() {
        for s in Service::ALL {
            assert!(!s.packages().is_empty());
            if let Some(why) = s.missing() {
                assert!(why.contains("apt-get install"), "{why}");
            }
        }
        assert!(find("sh").is_some() && find("no-such-program-of-ours").is_none());
    }
}
