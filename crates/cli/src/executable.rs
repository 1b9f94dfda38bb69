//! A command's file: where it is, and whether a preload library would keep it from starting.
//!
//! Invariant: nothing is started, and a file that cannot be read is never a reason.
//! Not here: what else keeps a program from taking part (doctor.rs), and what is started (run.rs).
use object::read::ReadCache;
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, ReadRef, elf};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What the kernel reads of a script to find its `#!` line, and how many scripts may stand for each other.
/// LINUX execve(2), BINPRM_BUF_SIZE.
const FIRST: usize = 256;
pub const SCRIPTS: usize = 4;

/// Libraries that end a process in which another library comes before them. The other sanitizers' runtimes (thread, leak,
/// undefined) start after a preload library, and find what they look for.
const FIRST_OR_NOTHING: [&[u8]; 2] = [b"libasan.so", b"libclang_rt.asan"];

/// The file that execvp(3) takes for `name`.
pub fn find(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        let p = PathBuf::from(name);
        return p.exists().then_some(p);
    }
    // LINUX execvp(3): the search path where there is none.
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    std::env::split_paths(&path)
        .map(|d| d.join(name))
        .find(|p| fs::metadata(p).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0))
}

/// The words of a script's `#!` line; `None`: it has none.
pub fn script(bytes: &[u8]) -> Option<impl Iterator<Item = &OsStr>> {
    let line = bytes.strip_prefix(b"#!")?.split(|&c| c == b'\n').next()?;
    let words = line.split(|c| c.is_ascii_whitespace());
    Some(words.filter(|w| !w.is_empty()).map(OsStr::from_bytes))
}

/// The paths by which a setting may name the program that `command` starts: as it is called, as it is found, as it is
/// without links; of a script those of its interpreter too.
pub fn names(command: &OsStr) -> Vec<PathBuf> {
    let mut names = vec![];
    let mut next = PathBuf::from(command);
    for _ in 0..=SCRIPTS {
        let found = find(next.as_os_str());
        let whole = found.as_ref().and_then(|p| fs::canonicalize(p).ok());
        names.push(next);
        names.extend(found.iter().cloned().chain(whole));
        // A FIFO would make us wait.
        let file = found.filter(|p| p.is_file()).map(File::open);
        let mut head = [0; FIRST];
        let n = file.and_then(|f| f.ok()?.read_at(&mut head, 0).ok());
        let inner = script(&head[..n.unwrap_or(0)]).and_then(|mut words| words.next());
        let Some(inner) = inner else { break };
        next = inner.into();
    }
    names
}

/// Why `command` must start without a preload library; `None`: nothing is known against one.
pub fn refuses_preload(command: &OsStr) -> Option<String> {
    let mut path = find(command)?;
    for _ in 0..=SCRIPTS {
        // A FIFO would make us wait.
        if !fs::metadata(&path).is_ok_and(|m| m.is_file()) {
            return None;
        }
        let file = File::open(&path).ok()?;
        let mut head = [0; FIRST];
        let n = file.read_at(&mut head, 0).ok()?;
        let Some(mut words) = script(&head[..n]) else {
            return runtime_of(&ReadCache::new(file)).map(|r| reason(&path, &r));
        };
        path = PathBuf::from(words.next()?);
    }
    None
}

/// The sentence about a program that needs `runtime` first.
pub fn reason(path: &Path, runtime: &str) -> String {
    format!(
        "{}: built with AddressSanitizer, whose {runtime} lets no preload library come first",
        path.display()
    )
}

/// The runtime that must be the first library of the ELF file `data`, if it needs one.
pub fn runtime_of<'a>(data: impl ReadRef<'a>) -> Option<String> {
    let header = elf::FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, data).ok()?;
    let entries = segments
        .iter()
        .find_map(|s| s.dynamic(endian, data).ok()?)?;
    let value = |tag: u32| {
        let entry = entries.iter().find(|e| e.tag32(endian) == Some(tag))?;
        Some(entry.d_val(endian))
    };
    // The first of them is the first library that the loader maps.
    let (strings, name) = (value(elf::DT_STRTAB)?, value(elf::DT_NEEDED)?);
    let at = strings.checked_add(name)?;
    let from = segments.iter().find_map(|s| {
        let into = at.checked_sub(s.p_vaddr(endian))?;
        let held = s.p_type(endian) == elf::PT_LOAD && into < s.p_filesz(endian);
        held.then_some(s.p_offset(endian).checked_add(into)?)
    })?;
    let name = data.read_bytes_at_until(from..data.len().ok()?, 0).ok()?;
    let base = name.rsplit(|&c| c == b'/').next()?;
    let harmed = FIRST_OR_NOTHING.iter().any(|r| base.starts_with(r));
    harmed.then(|| String::from_utf8_lossy(base).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_script() {
        let words = |b: &'static [u8]| script(b).map(|w| w.collect::<Vec<_>>());
        assert_eq!(
            words(b"#! /bin/sh -e\nx y").unwrap(),
            [OsStr::new("/bin/sh"), OsStr::new("-e")]
        );
        assert!(words(b"#!").unwrap().is_empty());
        assert!(words(b"echo").is_none());
    }

    #[test]
    fn what_cannot_be_read_is_no_reason() {
        for path in ["/nonexistent", "/", "/dev/null", "/proc/self/exe"] {
            assert_eq!(refuses_preload(OsStr::new(path)), None, "{path}");
        }
        let mut cut = fs::read("/proc/self/exe").unwrap();
        for n in [0, 3, 20, 64, 100, 400, 1000] {
            assert_eq!(runtime_of(&cut[..n]), None);
        }
        cut.truncate(4096);
        // Every header damaged in turn.
        for i in 0..cut.len() {
            cut[i] ^= 0xff;
            assert_eq!(runtime_of(&cut[..]), None);
            cut[i] ^= 0xff;
        }
    }
}
