//! The cases of `services`: a service, how many clients ask it, and how much they ask.
//!
//! Invariant: a run of a case asks for a fixed amount, so both backends do the same work.
//! Not here: how a service is started and asked (redis.rs, memcached.rs, postgres.rs, nginx.rs).
use super::{memcached, nginx, postgres, redis};
use crate::program;
use crate::record::{Better, Metric};
use std::path::PathBuf;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Service {
    Redis,
    Memcached,
    Postgres,
    Nginx,
}

impl Service {
    pub const ALL: [Service; 4] = [
        Service::Redis,
        Service::Memcached,
        Service::Postgres,
        Service::Nginx,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Service::Redis => "redis",
            Service::Memcached => "memcached",
            Service::Postgres => "postgres",
            Service::Nginx => "nginx",
        }
    }

    /// Programs that it needs.
    fn programs(self) -> &'static [&'static str] {
        match self {
            Service::Redis => &redis::PROGRAMS,
            Service::Memcached => &memcached::PROGRAMS,
            Service::Postgres => &postgres::PROGRAMS,
            Service::Nginx => &nginx::PROGRAMS,
        }
    }

    /// Debian's packages of them.
    fn packages(self) -> &'static str {
        match self {
            Service::Redis => "redis-server redis-tools",
            Service::Memcached => "memcached",
            Service::Postgres => "postgresql",
            Service::Nginx => "nginx apache2-utils",
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

    /// What a run gives, in this order; the first is the one that is compared.
    pub fn metrics(self) -> &'static [Metric<'static>] {
        const MORE: Option<Better> = Some(Better::More);
        match self {
            Service::Redis => &[("get", "1/s", MORE), ("set", "1/s", MORE)],
            _ => &[("rate", "1/s", MORE)],
        }
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

#[derive(Clone, Copy)]
pub struct Case {
    pub id: &'static str,
    pub service: Service,
    pub clients: u32,
    /// Requests that a client sends before it waits for an answer.
    pub depth: u32,
    /// Requests of all clients together in a usual run, and with --quick.
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
        amount,
    }
}

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
        CASES.iter().find(|c| c.id == id)
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
        for c in &CASES {
            assert_eq!(Case::of(c.id).unwrap().id, c.id);
            assert!(c.id.starts_with(c.service.name()));
            for quick in [false, true] {
                assert_eq!(c.amount(quick) % (c.clients * c.depth), 0, "{}", c.id);
            }
            assert!(c.amount(true) < c.amount(false));
        }
    }

    #[test]
    fn what_is_not_here_is_named_with_its_package() {
        for s in Service::ALL {
            assert!(!s.packages().is_empty() && !s.metrics().is_empty());
            if let Some(why) = s.missing() {
                assert!(why.contains("apt-get install"), "{why}");
            }
        }
        assert!(find("sh").is_some() && find("no-such-program-of-ours").is_none());
    }
}
