//! Whether a program can take part, and why not: what `byway doctor -- CMD` shows, and what a run says of its command.
//!
//! Invariant: what is asked is what a run asks: the same preparation, the same cache, the same limits. What only the
//! program's own course can tell is said to be unknown. Nothing is started but the dynamic loader's own listing.
//! Not here: how a text is rewritten (rewrite/), the file behind a script that stands for another (shim.rs).
use crate::executable;
use crate::rewrite::{self, Answer};
use crate::shim;
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{Object, ObjectSymbol};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Is {
    Fine,
    /// It keeps the program from taking part.
    Against,
    /// Only the program's course tells.
    Open,
}

/// One thing that was found out.
pub struct Finding {
    pub is: Is,
    pub text: String,
}

/// What is found out of a program.
#[derive(Default)]
pub struct Findings(pub Vec<Finding>);

impl Findings {
    fn say(&mut self, is: Is, text: String) {
        self.0.push(Finding { is, text });
    }

    /// Whether there is such a finding.
    pub fn any(&self, is: Is) -> bool {
        self.0.iter().any(|f| f.is == is)
    }
}

/// Looks at the program that `name` starts, with the cache in `cache`; `None`: there is none.
pub fn look(name: &OsStr, cache: &Path) -> Option<Findings> {
    let path = executable::find(name)?;
    let mut f = Findings::default();
    file(&path, cache, &mut f, 0);
    Some(f)
}

/// Why the program that `name` starts takes no part, if that can be told.
pub fn why_not(name: &OsStr, cache: &Path) -> Option<String> {
    let found = look(name, cache)?;
    let against = found.0.into_iter().find(|f| f.is == Is::Against)?;
    Some(against.text)
}

fn file(path: &Path, cache: &Path, f: &mut Findings, depth: usize) {
    let shown = path.display();
    // A FIFO would make us wait.
    let is_file = fs::metadata(path).is_ok_and(|m| m.is_file());
    let bytes = match fs::read(path) {
        Ok(b) if is_file => b,
        Ok(_) => return f.say(Is::Against, format!("{shown}: no regular file")),
        Err(e) => return f.say(Is::Against, format!("{shown}: {e}")),
    };
    if depth < executable::SCRIPTS && bytes.starts_with(b"#!") {
        return script(path, &bytes, cache, f, depth);
    }
    if let Some(why) = secure(path) {
        f.say(
            Is::Against,
            format!("{shown}: {why}, so its loader ignores LD_PRELOAD"),
        );
    }
    let loader = match loader(&bytes) {
        Ok(loader) => loader,
        // A library by itself.
        Err(_) if path.to_string_lossy().contains(".so") => return object(path, cache, f),
        Err(why) => return f.say(Is::Against, format!("{shown}: {why}")),
    };
    if !loader.as_bytes().ends_with(b"/ld-linux-x86-64.so.2") {
        let text = format!(
            "{shown}: another C library's, with {}",
            loader.to_string_lossy()
        );
        return f.say(Is::Against, text);
    }
    if let Some(runtime) = executable::runtime_of(&bytes[..]) {
        f.say(Is::Against, executable::reason(path, &runtime));
    }
    objects(path, &loader, cache, f);
}

/// A script, and what it is run by or stands for.
fn script(path: &Path, bytes: &[u8], cache: &Path, f: &mut Findings, depth: usize) {
    let Some(mut words) = executable::script(bytes) else {
        return;
    };
    let first = words.next().unwrap_or_default();
    // env(1) in a script's first line stands for the program it names.
    let second = words.find(|w| !w.as_bytes().starts_with(b"-"));
    let inner = second
        .filter(|_| first.as_bytes().ends_with(b"/env"))
        .unwrap_or(first);
    let by = inner.to_string_lossy();
    f.say(Is::Fine, format!("{}: a script for {by}", path.display()));
    match executable::find(inner) {
        Some(p) => file(&p, cache, f, depth + 1),
        None => f.say(Is::Against, format!("{by} is not there")),
    }
    match shim::target(path, bytes) {
        Some(p) => {
            f.say(
                Is::Fine,
                format!("{}: starts {}", path.display(), p.display()),
            );
            file(&p, cache, f, depth + 1);
        }
        None if by.ends_with("sh") => {
            let text = format!(
                "{}: what it starts takes part or not by itself",
                path.display()
            );
            f.say(Is::Open, text);
        }
        None => {}
    }
}

/// Why the kernel has the program's loader ignore LD_PRELOAD.
///
/// LINUX ld.so(8), secure-execution mode: real and effective ids differ, or the file brings capabilities.
fn secure(path: &Path) -> Option<&'static str> {
    let m = fs::metadata(path).ok()?;
    // SAFETY: no preconditions.
    let (uid, gid) = unsafe { (libc::getuid(), libc::getgid()) };
    let mode = m.permissions().mode();
    if mode & 0o4000 != 0 && m.uid() != uid {
        return Some("setuid");
    }
    if mode & 0o2010 == 0o2010 && m.gid() != gid {
        return Some("setgid");
    }
    let name = std::ffi::CString::new(path.as_os_str().as_bytes()).ok()?;
    let caps = c"security.capability".as_ptr();
    // SAFETY: two C strings; nothing is written.
    let n = unsafe { libc::getxattr(name.as_ptr(), caps, std::ptr::null_mut(), 0) };
    (n > 0 && uid != 0).then_some("with capabilities of its own")
}

/// The program interpreter that an ELF file names; why there is none.
fn loader(bytes: &[u8]) -> Result<OsString, &'static str> {
    if !bytes.starts_with(b"\x7fELF") {
        return Err("no ELF program");
    }
    let file =
        ElfFile64::<object::Endianness>::parse(bytes).map_err(|_| "no 64-bit ELF program")?;
    let endian = file.endian();
    if file.elf_header().e_machine(endian) != object::elf::EM_X86_64 {
        return Err("a program for another machine");
    }
    let mut segments = file.elf_program_headers().iter();
    let name = segments.find_map(|p| p.interpreter(endian, bytes).ok()?);
    match name {
        Some(name) => Ok(OsStr::from_bytes(name).to_owned()),
        None => Err("static: it loads no library"),
    }
}

/// The program at `path` and all that the loader maps with it.
fn objects(path: &Path, loader: &OsStr, cache: &Path, f: &mut Findings) {
    let mut all = vec![path.to_owned()];
    let listed = Command::new(loader).arg("--list").arg(path).output();
    let text = listed.map_or_else(|_| Vec::new(), |o| o.stdout);
    for line in String::from_utf8_lossy(&text).lines() {
        let line = line.trim();
        if line.ends_with("=> not found") {
            f.say(
                Is::Against,
                format!("{}: {line}; it cannot start", path.display()),
            );
        }
        let p = line.split_once("=> ").map_or(line, |(_, p)| p);
        let p = p.split(" (").next().unwrap_or(p);
        // Without a slash it is the kernel's own object, or text.
        if p.contains('/') {
            all.push(p.into());
        }
    }
    let mut opens = None;
    for p in &all {
        object(p, cache, f);
        let is_libc = p.file_name().is_some_and(|n| n == "libc.so.6");
        if opens.is_none() && !is_libc && loads_later(p) {
            opens = Some(p);
        }
    }
    if let Some(p) = opens {
        let text = format!(
            "{}: loads libraries while it runs (dlopen); they are looked at then",
            p.display()
        );
        f.say(Is::Open, text);
    }
}

/// Says what the cache says of an object.
fn object(path: &Path, cache: &Path, f: &mut Findings) {
    let (is, text) = match rewrite::answer(cache, path) {
        Ok(Answer::Clean) => (Is::Fine, "no system call of interest".into()),
        Ok(Answer::Rewritten) => (Is::Fine, "rewritten".into()),
        Ok(Answer::Unable(why)) => (Is::Against, why),
        Err(e) => (Is::Against, e.to_string()),
    };
    f.say(is, format!("{}: {text}", path.display()));
}

/// Whether an object calls the loader while it runs.
fn loads_later(path: &PathBuf) -> bool {
    let bytes = fs::read(path).unwrap_or_default();
    let Ok(file) = ElfFile64::<object::Endianness>::parse(&bytes[..]) else {
        return false;
    };
    let mut names = file.dynamic_symbols().filter(|s| s.is_undefined());
    names.any(|s| matches!(s.name(), Ok("dlopen" | "dlmopen")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_reason_for_each_kind_of_file() {
        assert_eq!(loader(b"echo"), Err("no ELF program"));
        assert_eq!(loader(b"\x7fELF\x01\x01"), Err("no 64-bit ELF program"));
        let own = fs::read("/proc/self/exe").unwrap();
        assert!(loader(&own).is_ok_and(|l| l.as_bytes().starts_with(b"/")));
        let mut other = own;
        other[18] = 183;
        assert_eq!(loader(&other), Err("a program for another machine"));
    }

    #[test]
    fn a_program_that_cannot_be_found_has_no_findings() {
        let cache = std::env::temp_dir();
        assert!(look(OsStr::new("/nonexistent/x"), &cache).is_none());
        assert_eq!(why_not(OsStr::new("/nonexistent/x"), &cache), None);
    }
}
