//! How much memory the control groups of this process still allow it (cgroups(7)).
//!
//! Invariant: nothing is allocated, and no descriptor stays open. A group that says nothing has no limit.
//! Not here: how much of it rings may take (crate mem, group.rs); the CPUs' time (crate folder, quota.rs).
//! unsafe: system calls. Source: cgroup-v1/memory and cgroup-v2 of the kernel's documentation.
use crate::errno::{EMFILE, Ret, failed};
use crate::file;
use crate::syscall::{call6, nr};

const ENFILE: Ret = -23;
const AT_FDCWD: usize = -100isize as usize;
/// LINUX NAME_MAX, and a NUL.
const NAME: usize = 256;
/// LINUX cgroup-v1/memory: without a limit the file has the largest number of whole pages.
const NO_LIMIT: u64 = 1 << 62;

/// What the files of a version are called.
struct Version {
    limits: &'static [&'static [u8]],
    used: &'static [u8],
    /// In memory.stat, of the group and those below it: pages of files that nobody has used of late.
    cache: &'static [u8],
}

static V1: Version = Version {
    limits: &[b"memory.limit_in_bytes\0"],
    used: b"memory.usage_in_bytes\0",
    cache: b"total_inactive_file ",
};
// LINUX cgroup-v2: above `memory.high` nobody is killed, but everybody is slowed down.
static V2: Version = Version {
    limits: &[b"memory.max\0", b"memory.high\0"],
    used: b"memory.current\0",
    cache: b"inactive_file ",
};
/// Where a hierarchy may be mounted. LINUX cgroup-v2: the one hierarchy, alone or beside older ones.
const MOUNTS: [(&[u8], &Version); 3] = [(b"memory\0", &V1), (b".\0", &V2), (b"unified\0", &V2)];

/// Calls `f` with limit and free bytes of each group that limits this process; false if that cannot be learned now.
///
/// With `cache`, pages of files that nobody has used of late count as free. The kernel takes those before it kills a process.
pub fn memory(cache: bool, f: &mut dyn FnMut(u64, u64)) -> bool {
    at(b"/sys/fs/cgroup\0", b"/proc/self/cgroup\0", cache, f)
}

/// The same, of the groups in the file `own`, which are mounted in the folder `root`.
fn at(root: &[u8], own: &[u8], cache: bool, f: &mut dyn FnMut(u64, u64)) -> bool {
    let Some(own) = Opened::at(AT_FDCWD, own, 0) else {
        return false;
    };
    let Some(root) = Opened::at(AT_FDCWD, root, O_PATH) else {
        return false;
    };
    let (Ok(own), Ok(root)) = (own, root) else {
        // Without one of them nobody can tell.
        return true;
    };
    let mut text = Text::of(own.0);
    for (mount, version) in MOUNTS {
        match Opened::at(root.0, mount, O_PATH) {
            None => return false,
            Some(Err(_)) => continue,
            Some(Ok(dir)) => {
                text.rewind();
                if text.find(version) {
                    let known = version.walk(dir, &mut text, cache, f);
                    // LINUX cgroups(7): a controller is in one hierarchy only.
                    if !known || core::ptr::eq(version, &V1) {
                        return known;
                    }
                }
            }
        }
    }
    true
}

const O_CLOEXEC: usize = 0o2000000;
const O_PATH: usize = 0o10000000 | 0o200000; // and O_DIRECTORY

/// An open file, closed at the end.
struct Opened(usize);

impl Opened {
    /// `Some(Err)`: there is no such file for us. `None`: no descriptor is left to look.
    fn at(dir: usize, name: &[u8], how: usize) -> Option<Result<Opened, Ret>> {
        debug_assert!(name.last() == Some(&0));
        let name = name.as_ptr() as usize;
        // SAFETY: `name` is NUL terminated.
        match unsafe { call6(nr::OPENAT, dir, name, how | O_CLOEXEC, 0, 0, 0) } {
            EMFILE | ENFILE => None,
            r if failed(r) => Some(Err(r)),
            fd => Some(Ok(Opened(fd as usize))),
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        file::close(self.0);
    }
}

impl Version {
    /// Asks the group `dir`, and those below it on the path that `text` goes on with.
    ///
    /// In a container the path may be the host's. Then the mount's own root is all there is.
    fn walk(
        &self,
        mut dir: Opened,
        text: &mut Text,
        cache: bool,
        f: &mut dyn FnMut(u64, u64),
    ) -> bool {
        let mut name = [0; NAME];
        loop {
            if !self.ask(&dir, cache, f) {
                return false;
            }
            if !text.component(&mut name) || name.starts_with(b"..\0") {
                return true;
            }
            match Opened::at(dir.0, &name, O_PATH) {
                Some(Ok(below)) => dir = below,
                other => return other.is_some(),
            }
        }
    }

    fn ask(&self, dir: &Opened, cache: bool, f: &mut dyn FnMut(u64, u64)) -> bool {
        for name in self.limits {
            let Some(limit) = number(dir, name) else {
                return false;
            };
            let Some(limit) = limit.filter(|&n| n < NO_LIMIT) else {
                continue;
            };
            let Some(used) = number(dir, self.used) else {
                return false;
            };
            let reclaimable = if cache { self.cached(dir) } else { 0 };
            let used = used.unwrap_or(0).saturating_sub(reclaimable);
            f(limit, limit.saturating_sub(used));
        }
        true
    }

    fn cached(&self, dir: &Opened) -> u64 {
        let Some(Ok(stat)) = Opened::at(dir.0, b"memory.stat\0", 0) else {
            return 0;
        };
        let mut text = Text::of(stat.0);
        loop {
            let mut key = self.cache.iter();
            let mut is = true;
            while is && let Some(&c) = key.next() {
                match text.next() {
                    Some(b'\n') | None => return 0,
                    got => is = got == Some(c),
                }
            }
            if is {
                return text.digits().unwrap_or(0);
            }
            if !text.skip(b'\n') {
                return 0;
            }
        }
    }
}

/// The number in a file. `Some(None)`: none is there. `None`: no descriptor is left to look.
fn number(dir: &Opened, name: &[u8]) -> Option<Option<u64>> {
    Some(match Opened::at(dir.0, name, 0)? {
        Ok(file) => Text::of(file.0).digits(),
        Err(_) => None,
    })
}

/// A file's bytes, one after the other.
struct Text {
    fd: usize,
    offset: usize,
    part: [u8; 256],
    n: usize,
    at: usize,
    /// The path that `component` reads is at its end.
    ended: bool,
}

impl Text {
    fn of(fd: usize) -> Text {
        Text {
            fd,
            offset: 0,
            part: [0; 256],
            n: 0,
            at: 0,
            ended: false,
        }
    }

    fn next(&mut self) -> Option<u8> {
        if self.at == self.n {
            let part = self.part.as_mut_ptr() as usize;
            // SAFETY: pread(2) into our buffer.
            let n = unsafe { call6(nr::PREAD, self.fd, part, self.part.len(), self.offset, 0, 0) };
            if n <= 0 {
                return None;
            }
            (self.n, self.at) = (n as usize, 0);
            self.offset += n as usize;
        }
        self.at += 1;
        Some(self.part[self.at - 1])
    }

    /// Back to the beginning, which mostly is still here: the kernel takes long to write such a file.
    fn rewind(&mut self) {
        if self.offset > self.n {
            (self.offset, self.n) = (0, 0);
        }
        (self.at, self.ended) = (0, false);
    }

    /// Goes behind the next `c`; false if there is none.
    fn skip(&mut self, c: u8) -> bool {
        while let Some(got) = self.next() {
            if got == c {
                return true;
            }
        }
        false
    }

    /// Goes to the path of the group in this version's hierarchy; false if no line has one.
    ///
    /// LINUX cgroups(7): lines of `number:controllers:path`; of version 2 without controllers.
    fn find(&mut self, version: &Version) -> bool {
        const MEMORY: &[u8] = b"memory";
        let unnamed = core::ptr::eq(version, &V2);
        while self.skip(b':') {
            let (mut same, mut found, mut empty) = (Some(0), false, true);
            loop {
                let Some(c) = self.next() else { return false };
                if c == b',' || c == b':' {
                    found |= same == Some(MEMORY.len());
                    same = Some(0);
                    if c == b':' {
                        break;
                    }
                } else {
                    same = same.filter(|&k| MEMORY.get(k) == Some(&c)).map(|k| k + 1);
                }
                empty = false;
            }
            if (unnamed && empty) || (!unnamed && found) {
                return true;
            }
            if !self.skip(b'\n') {
                return false;
            }
        }
        false
    }

    /// The next name of the path, NUL terminated; false at its end.
    fn component(&mut self, name: &mut [u8; NAME]) -> bool {
        let mut n = 0;
        while !self.ended {
            match self.next() {
                Some(b'/') if n == 0 => {}
                Some(b'/') => break,
                Some(b'\n') | None => self.ended = true,
                // What is too long is the name of nothing.
                Some(c) => {
                    name[n] = c;
                    n = (n + 1).min(NAME - 1);
                }
            }
        }
        name[n] = 0;
        n > 0
    }

    fn digits(&mut self) -> Option<u64> {
        let mut n: Option<u64> = None;
        while let Some(c) = self.next().filter(u8::is_ascii_digit) {
            let more = n.unwrap_or(0).saturating_mul(10);
            n = Some(more.saturating_add(u64::from(c - b'0')));
        }
        n
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::path::{Path, PathBuf};
    use std::vec::Vec;
    use std::{format, fs, vec};

    const M: u64 = 1 << 20;

    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str) -> Tree {
            let root = std::env::temp_dir().join(format!("byway-{name}-{}", std::process::id()));
            Tree(root)
        }
        fn file(&self, name: &str, text: &str) {
            let path = self.0.join("root").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        /// What the groups named by `own` say.
        fn ask(&self, own: &str, cache: bool) -> Vec<(u64, u64)> {
            fs::create_dir_all(self.0.join("root")).unwrap();
            fs::write(self.0.join("own"), own).unwrap();
            let name = |p: &Path| [p.as_os_str().as_encoded_bytes(), b"\0"].concat();
            let mut all = Vec::new();
            let mut f = |limit, left| all.push((limit, left));
            let known = at(
                &name(&self.0.join("root")),
                &name(&self.0.join("own")),
                cache,
                &mut f,
            );
            assert!(known);
            all
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn version_2_up_to_the_mount() {
        let t = Tree::new("group-2");
        for (group, max, high, current) in [
            ("a", "209715200", "max", "104857600"),
            ("a/b", "max", "max", "1048576"),
            ("a/b/c", "max", "52428800", "52428800"),
        ] {
            t.file(&format!("{group}/memory.max"), &format!("{max}\n"));
            t.file(&format!("{group}/memory.high"), &format!("{high}\n"));
            t.file(&format!("{group}/memory.current"), &format!("{current}\n"));
        }
        assert_eq!(t.ask("0::/\n", false), vec![]);
        assert_eq!(t.ask("0::/a\n", false), vec![(200 * M, 100 * M)]);
        assert_eq!(t.ask("0::/a/b\n", false), vec![(200 * M, 100 * M)]);
        let both = vec![(200 * M, 100 * M), (50 * M, 0)];
        assert_eq!(t.ask("0::/a/b/c\n", false), both, "above memory.high, too");
        assert_eq!(t.ask("0::/a/b/c", false), both);
        assert_eq!(
            t.ask("0::/a/of/the/host\n", false),
            vec![(200 * M, 100 * M)]
        );
        assert_eq!(t.ask("0::/../a\n", false), vec![], "outside of the mount");
        let stat = "anon 5\nfile 20971520\nactive_file 1\ninactive_file 10485760\n";
        t.file("a/b/c/memory.stat", stat);
        let both = vec![(200 * M, 100 * M), (50 * M, 10 * M)];
        assert_eq!(t.ask("0::/a/b/c\n", true), both, "pages of files");
        // Of a container, the mount's root is the group.
        t.file("memory.max", "41943040\n");
        t.file("memory.current", "10485760\n");
        assert_eq!(t.ask("0::/\n", false), vec![(40 * M, 30 * M)]);
    }

    #[test]
    fn version_1_beside_version_2() {
        let t = Tree::new("group-1");
        for (group, limit, used) in [
            ("memory", 9223372036854771712, 7 * M),
            ("memory/x", 64 * M, 16 * M),
            ("memory/x/y", 32 * M, 48 * M),
        ] {
            t.file(
                &format!("{group}/memory.limit_in_bytes"),
                &format!("{limit}\n"),
            );
            t.file(
                &format!("{group}/memory.usage_in_bytes"),
                &format!("{used}\n"),
            );
        }
        t.file("unified/u/memory.max", "134217728\n");
        t.file("unified/u/memory.current", "0\n");
        let of = |own| t.ask(own, false);
        assert_eq!(of("4:memory:/\n0::/\n"), vec![]);
        assert_eq!(
            of("5:cpu,cpuacct:/c\n4:memory:/x\n0::/\n"),
            vec![(64 * M, 48 * M)]
        );
        assert_eq!(
            of("4:hugetlb,memory:/x/y\n"),
            vec![(64 * M, 48 * M), (32 * M, 0)]
        );
        assert_eq!(of("4:memory,hugetlb:/x\n0::/u\n"), vec![(64 * M, 48 * M)]);
        assert_eq!(of("4:memoryless:/x\n3:mem:/x\n"), vec![]);
        assert_eq!(of("5:cpu:/\n0::/u\n"), vec![(128 * M, 128 * M)]);
        let filler = "total_active_file 1\n".repeat(100);
        t.file(
            "memory/x/memory.stat",
            &format!("inactive_file 7\n{filler}total_inactive_file 4096\n"),
        );
        assert_eq!(t.ask("4:memory:/x\n", true), vec![(64 * M, 48 * M + 4096)]);
    }

    #[test]
    fn nonsense_limits_nobody() {
        let t = Tree::new("group-0");
        t.file("n/memory.current", "5\n");
        for own in [
            "",
            ":",
            "::",
            "0::",
            "memory",
            "1:memory",
            "1:memory:",
            "0::/../..\n",
            "\u{0}",
        ] {
            assert_eq!(t.ask(own, true), vec![], "{own:?}");
        }
        for told in ["", "max", "x", "-1", "18446744073709551616"] {
            t.file("n/memory.max", told);
            assert_eq!(t.ask("0::/n\n", true), vec![], "{told:?}");
        }
        let long = format!("0::/{}/{}\n", "n".repeat(5000), "n");
        assert_eq!(t.ask(&long, true), vec![]);
        t.file("n/memory.max", "6\n");
        assert_eq!(
            t.ask(&format!("0::{}n\n", "/".repeat(1000)), true),
            vec![(6, 1)]
        );
    }

    #[test]
    fn the_machine_can_be_asked() {
        // Of its own files: other tests open others meanwhile.
        let open = || {
            let all = fs::read_dir("/proc/self/fd").unwrap().flatten();
            let named = all.filter_map(|fd| fs::read_link(fd.path()).ok());
            named
                .filter(|name| name.to_string_lossy().contains("cgroup"))
                .count()
        };
        assert!(memory(true, &mut |limit, left| {
            assert!(left <= limit && open() > 0)
        }));
        assert_eq!(open(), 0);
        let began = std::time::Instant::now();
        (0..1000).for_each(|_| assert!(memory(false, &mut |_, _| {})));
        std::println!("one question: {:?}", began.elapsed() / 1000);
    }
}
