//! The cache by itself: what counts as a whole file, what is asked for and no object, what is swept.
//!
//! Not here: programs that run with a damaged cache (tests/harm/cache.py).
use super::*;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// A folder of a test's own, gone with the value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let dir = std::env::temp_dir().join(format!("byway-cache-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir(&dir).unwrap();
        Folder(dir)
    }

    fn fifo(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        let c = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: a path.
        assert_eq!(unsafe { libc::mkfifo(c.as_ptr(), 0o600) }, 0);
        path
    }

    /// The names in it, sorted.
    fn names(&self) -> Vec<String> {
        let all = fs::read_dir(&self.0).unwrap().flatten();
        let mut v: Vec<String> = all.map(|e| e.file_name().into_string().unwrap()).collect();
        v.sort();
        v
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The dynamic loader: a small object that is rewritten.
fn loader() -> PathBuf {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    maps.split_whitespace()
        .find(|w| w.contains("/ld-linux-x86-64.so.2"))
        .expect("a dynamic test program")
        .into()
}

/// The loader's file in the cache `dir`.
fn file(dir: &Folder) -> PathBuf {
    assert_eq!(ensure(&dir.0, &loader()).unwrap(), None);
    dir.0.join(name_of(&fs::metadata(loader()).unwrap()))
}

#[test]
fn any_bit_that_changes_is_seen() {
    let dir = Folder::new("bits");
    let good = fs::read(file(&dir)).unwrap();
    let len = good.len() as u64;
    assert!(image::whole(&good[..], len).is_some());
    let heads = (0..300).chain((300..good.len()).step_by(997));
    for at in heads.chain([good.len() - 1]) {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        assert!(image::whole(&bad[..], len).is_none(), "byte {at}");
    }
    for n in [0, 1, 127, 128, 4095, 4096, 70_000, good.len() - 1] {
        assert!(image::whole(&good[..n], n as u64).is_none(), "{n} bytes");
        // Cut off after its length was asked.
        assert!(image::whole(&good[..n], len).is_none(), "{n} bytes");
    }
    let note = image::unable("a reason");
    let found = image::whole(&note[..], note.len() as u64).unwrap();
    assert_eq!(found.unable().as_deref(), Some("a reason"));
    let found = image::whole(&good[..], len).unwrap();
    assert_eq!(found.unable(), None);
}

#[test]
fn a_file_that_does_not_count_is_made_anew() {
    let dir = Folder::new("anew");
    let file = file(&dir);
    let good = fs::read(&file).unwrap();
    let name = file.file_name().unwrap().to_str().unwrap().to_owned();
    let damages: [&dyn Fn(); 6] = [
        &|| fs::write(&file, &good[..8192]).unwrap(),
        &|| fs::write(&file, "").unwrap(),
        &|| fs::set_permissions(&file, fs::Permissions::from_mode(0o622)).unwrap(),
        &|| fs::remove_file(&file).unwrap(),
        &|| {
            fs::remove_file(&file).unwrap();
            dir.fifo(&name);
        },
        &|| {
            fs::rename(&file, dir.0.join("other")).unwrap();
            std::os::unix::fs::symlink("other", &file).unwrap();
        },
    ];
    for (k, damage) in damages.iter().enumerate() {
        damage();
        assert_eq!(ensure(&dir.0, &loader()).unwrap(), None);
        let m = fs::symlink_metadata(&file).unwrap();
        assert!(m.is_file() && m.mode() & 0o777 == 0o600, "damage {k}");
        assert_eq!(fs::read(&file).unwrap(), good, "damage {k}");
    }
    assert_eq!(dir.names(), [name, "other".into()]);
}

#[test]
fn what_is_no_regular_file_is_no_object() {
    let dir = Folder::new("objects");
    let fifo = dir.fifo("fifo");
    for path in [&fifo, Path::new("/dev/zero"), Path::new("/dev/tty"), &dir.0] {
        assert!(ensure(&dir.0, path).is_err(), "{}", path.display());
    }
    // Longer than memory: an error as well.
    let huge = dir.0.join("huge");
    File::create(&huge).unwrap().set_len(1 << 43).unwrap();
    assert!(ensure(&dir.0, &huge).is_err());
    assert_eq!(dir.names(), ["fifo", "huge"]);
}

#[test]
fn what_cannot_be_written_leaves_nothing() {
    let dir = Folder::new("unwritten");
    let name = name_of(&fs::metadata(loader()).unwrap());
    fs::create_dir(dir.0.join(&name)).unwrap();
    assert!(ensure(&dir.0, &loader()).is_err());
    assert_eq!(dir.names(), [name]);
    assert!(ensure(&dir.0.join("nowhere"), &loader()).is_err());
}

#[test]
fn verify_counts_and_removes() {
    let dir = Folder::new("verify");
    let file = file(&dir);
    let like = |n: u32| {
        dir.0.join(format!(
            "{n:016x}-{n:016x}-{n:016x}-{n:08x}-{n:016x}.v{VERSION}"
        ))
    };
    fs::copy(&file, like(1)).unwrap();
    let found = |whole, removed, stuck| Verified {
        whole,
        removed,
        stuck,
    };
    assert_eq!(verify(&dir.0), found(2, 0, 0));
    let mut bad = fs::read(&file).unwrap();
    *bad.last_mut().unwrap() ^= 1;
    fs::write(like(1), &bad).unwrap();
    fs::create_dir(like(2)).unwrap();
    fs::write(dir.0.join("other.v4"), "").unwrap();
    assert_eq!(verify(&dir.0), found(1, 1, 1));
    assert_eq!(verify(&dir.0), found(1, 0, 1));
    assert!(dir.0.join("other.v4").exists());
    assert_eq!(verify(&dir.0.join("nowhere")), Verified::default());
}

#[test]
fn names_of_ours_are_told_from_others() {
    let m = fs::metadata(loader()).unwrap();
    let name = name_of(&m);
    assert!(is_current(&name));
    assert!(name.as_bytes().ends_with(&byway_sys::cached::SUFFIX));
    let (numbers, _) = name.rsplit_once(".v").unwrap();
    assert_eq!(version_of(&format!("{numbers}.v12")), Some(12));
    for n in [
        "",
        "v4",
        "a.v4",
        "----.v4",
        "film.vob",
        &name[1..],
        &name.replace('-', "_"),
    ] {
        assert_eq!(version_of(n), None, "{n}");
    }
    // Process ids end below this.
    let dead = 1u32 << 23;
    assert!(is_of_the_dead(&format!(".{name}.{dead}-1f")));
    assert!(is_of_the_dead(&format!(".{name}.{dead}")));
    assert!(!is_of_the_dead(&format!(".{name}.1-1f")));
    assert!(!is_of_the_dead(&format!(".other.{dead}")));
    assert!(!is_of_the_dead(&format!("{name}.{dead}")));
}
