//! What control groups (cgroups(7)) allow a process: of how many CPUs it has the time, and how many threads may be added to its own.
//!
//! Invariant: where nothing is to be read there is no limit; a process has at most the CPUs that it may run on.
//! Not here: a control group that limits which CPUs (cpuset): sched_getaffinity(2) tells that. Memory (crate sys, group.rs).
use byway_sys::process;
use std::fs;
use std::path::{Component, Path};
use std::sync::OnceLock;

/// CPUs of whose whole time this process may have a part each: at least 1.
pub fn cpus() -> u32 {
    let quota = least(Path::new("/sys/fs/cgroup"), own_groups(), &CPU);
    process::allowed_cpus().min(quota.unwrap_or(u32::MAX))
}

/// Whether a run may add `n` processes and threads to those of its command: a small part of what is allowed, and of what is left.
///
/// LINUX cgroup-v1/pids: with too many of them fork(2) fails, which the command would have had for itself.
pub fn may_add(n: u32) -> bool {
    least(Path::new("/sys/fs/cgroup"), own_groups(), &PIDS).is_none_or(|spare| n <= spare)
}

/// Of this process at its first question.
fn own_groups() -> &'static str {
    static OWN: OnceLock<String> = OnceLock::new();
    OWN.get_or_init(|| fs::read_to_string("/proc/self/cgroup").unwrap_or_default())
}

/// A controller, and how it says what it allows in each version.
struct Controller {
    name: &'static str,
    first: fn(&Path) -> Option<u32>,
    second: fn(&Path) -> Option<u32>,
}

const CPU: Controller = Controller {
    name: "cpu",
    first: by_quota,
    second: by_max,
};
const PIDS: Controller = Controller {
    name: "pids",
    first: by_pids,
    second: by_pids,
};

/// The least that the groups in `own`, a /proc/PID/cgroup, and those above them allow; `None`: no limit.
/// `root`: where they are mounted.
fn least(root: &Path, own: &str, of: &Controller) -> Option<u32> {
    let groups = own.lines().filter_map(|line| {
        let mut of = line.splitn(3, ':').skip(1);
        Some((of.next()?, of.next()?))
    });
    let limits = groups.filter_map(|(controllers, path)| {
        match controllers {
            // LINUX cgroup-v2: the one hierarchy, wherever it is mounted beside older ones.
            "" => [root.to_owned(), root.join("unified")]
                .iter()
                .filter_map(|r| above(r, path, of.second))
                .min(),
            // LINUX cgroups(7), version 1: the folder has the controllers' name, or one of them.
            c if c.split(',').any(|c| c == of.name) => [of.name, c]
                .iter()
                .take(if c == of.name { 1 } else { 2 })
                .filter_map(|c| above(&root.join(c), path, of.first))
                .min(),
            _ => None,
        }
    });
    limits.min()
}

/// The least of what `told` says of the group at `path` and of those above it. In a container a path may be the host's: then the
/// mount's own root is all there is.
fn above(mount: &Path, path: &str, told: fn(&Path) -> Option<u32>) -> Option<u32> {
    let mut at = mount.to_owned();
    let mut least = told(&at);
    for part in Path::new(path).components() {
        if let Component::Normal(name) = part {
            at.push(name);
            least = least.into_iter().chain(told(&at)).min();
        }
    }
    least
}

/// Of version 2: `cpu.max`, quota and period in microseconds, or "max".
fn by_max(group: &Path) -> Option<u32> {
    let text = fs::read_to_string(group.join("cpu.max")).ok()?;
    let (quota, period) = text.trim().split_once(' ')?;
    whole(quota.parse().ok()?, period.parse().ok()?)
}

/// Of version 1; a quota of -1 is none.
fn by_quota(group: &Path) -> Option<u32> {
    let of = |name: &str| {
        fs::read_to_string(group.join(name))
            .ok()?
            .trim()
            .parse()
            .ok()
    };
    whole(of("cpu.cfs_quota_us")?, of("cpu.cfs_period_us")?)
}

/// Of both: `pids.max` or "max", and `pids.current`. A sixteenth of the one, a quarter of what is left.
fn by_pids(group: &Path) -> Option<u32> {
    let of = |name: &str| {
        let text = fs::read_to_string(group.join(name)).ok()?;
        text.trim().parse::<u32>().ok()
    };
    let (most, now) = (of("pids.max")?, of("pids.current")?);
    Some((most / 16).min(most.saturating_sub(now) / 4))
}

/// CPUs whose whole time that is: one and a half are one, for who waits awake on the second takes it from the first.
fn whole(quota: i64, period: i64) -> Option<u32> {
    (quota > 0 && period > 0).then(|| (quota / period).clamp(1, i64::from(u32::MAX)) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn groups_of_both_versions() {
        let root = std::env::temp_dir().join(format!("byway-quota-{}", std::process::id()));
        file(&root, "cpu.max", "max 100000\n");
        file(&root, "a/cpu.max", "250000 100000\n");
        file(&root, "a/b/cpu.max", "max 100000\n");
        file(&root, "a/c/cpu.max", "150000 100000\n");
        file(&root, "unified/u/cpu.max", "300000 100000\n");
        for (dir, quota) in [
            ("cpu", "-1"),
            ("cpu/x", "50000"),
            ("cpu,cpuacct/y", "400000"),
        ] {
            file(&root, &format!("{dir}/cpu.cfs_quota_us"), quota);
            file(&root, &format!("{dir}/cpu.cfs_period_us"), "100000\n");
        }
        let of = |own: &str| least(&root, own, &CPU);
        assert_eq!(of("0::/\n"), None);
        assert_eq!(of("0::/a/b\n"), Some(2), "by the group above");
        assert_eq!(of("0::/a/c\n"), Some(1), "one and a half");
        assert_eq!(of("0::/u\n"), Some(3), "beside version 1");
        assert_eq!(of("0::/of/the/host\n"), None);
        assert_eq!(of("3:cpu:/x\n2:memory:/m\n0::/\n"), Some(1), "a half");
        assert_eq!(of("3:cpu:/\n0::/\n"), None);
        assert_eq!(
            of("3:cpu,cpuacct:/y\n0::/a\n"),
            Some(2),
            "the least of both"
        );
        assert_eq!(of("3:cpuset:/x\n"), None);
        for nonsense in ["", ":", "::", "0::", "cpu", "1:cpu", "0::/../..\n", "\u{0}"] {
            assert_eq!(of(nonsense), None, "{nonsense:?}");
        }
        for told in ["", "max", "5", "-1 5", "0 5", "5 0", "x y", "1 2 3"] {
            file(&root, "n/cpu.max", told);
            assert_eq!(of("0::/n\n"), None, "{told:?}");
        }
        let of = |own: &str| least(&root, own, &PIDS);
        for (group, most, now) in [
            ("pids", "max", "70"),
            ("pids/few", "40", "1"),
            ("pids/many", "1600", "1000"),
            ("pids/many/full", "max", "900"),
            ("a", "1000", "992"),
        ] {
            file(&root, &format!("{group}/pids.max"), most);
            file(&root, &format!("{group}/pids.current"), now);
        }
        assert_eq!(of("8:pids:/\n0::/\n"), None);
        assert_eq!(of("8:pids:/few\n0::/\n"), Some(2), "a small part");
        assert_eq!(of("8:pids:/many/full\n"), Some(100), "by the group above");
        assert_eq!(of("0::/a/b\n"), Some(2), "of what is left");
        fs::remove_dir_all(&root).unwrap();
    }
}
