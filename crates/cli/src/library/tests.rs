//! The library's file by itself: what counts, what is made anew, what goes, and its names.
//!
//! Not here: runs that use it (tests/install.sh, tests/harm/spaces.py).
use super::*;
use std::os::unix::fs::PermissionsExt;

/// A folder of a test's own, gone with the value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let dir = std::env::temp_dir().join(format!("byway-library-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir(&dir).unwrap();
        Folder(dir)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The inode of the file that a run would use.
fn inode(dir: &Folder) -> u64 {
    match find(&dir.0) {
        Ok(Library::File(path)) => {
            assert_eq!(path, dir.0.join(NAME));
            fs::metadata(path).unwrap().ino()
        }
        _ => panic!("no file"),
    }
}

/// Writes over the file in its place.
fn over(path: &Path, bytes: &[u8]) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(path, bytes).unwrap();
}

#[test]
fn unpacked_once() {
    let dir = Folder::new("once");
    let (first, path) = (inode(&dir), dir.0.join(NAME));
    assert!(fs::read(&path).unwrap() == BYTES && BYTES.starts_with(b"\x7fELF"));
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o500);
    assert_eq!(inode(&dir), first);
    assert_eq!(renew(&dir.0), Renewed::Whole);
    assert_eq!(fs::read_dir(&dir.0).unwrap().count(), 1, "nothing else");
}

#[test]
fn what_does_not_count_is_made_anew() {
    let dir = Folder::new("anew");
    let path = dir.0.join(NAME);
    inode(&dir);
    let damages: [&dyn Fn(); 4] = [
        &|| over(&path, b""),
        &|| over(&path, b"no library"),
        &|| fs::set_permissions(&path, fs::Permissions::from_mode(0o722)).unwrap(),
        &|| {
            fs::remove_file(&path).unwrap();
            std::os::unix::fs::symlink("/bin/true", &path).unwrap();
        },
    ];
    for damage in damages {
        damage();
        inode(&dir);
        let mode = fs::symlink_metadata(&path).unwrap().mode();
        assert_eq!(mode, libc::S_IFREG | 0o500);
        assert!(fs::read(&path).unwrap() == BYTES);
    }
    let mut bytes = BYTES.to_vec();
    bytes[BYTES.len() / 2] ^= 1;
    over(&path, &bytes);
    inode(&dir);
    assert!(fs::read(&path).unwrap() == bytes, "of the right size");
    assert_eq!(renew(&dir.0), Renewed::Mended);
    assert!(fs::read(&path).unwrap() == BYTES);
}

#[test]
fn in_memory_where_there_can_be_no_file() {
    let none = std::env::temp_dir().join("byway-library-none/at-all");
    assert_eq!(renew(&none), Renewed::Absent);
    let Ok(Library::Memory(mut f)) = find(&none) else {
        panic!("not in memory")
    };
    assert!(f.write_all(b"x").is_err(), "sealed");
    let dir = Folder::new("memory");
    let named = Named::of(Library::Memory(f), &dir.0.join("run-0123456789abcdef")).unwrap();
    let link = PathBuf::from(named.preload(None));
    assert!(fs::read(&link).unwrap() == BYTES);
    drop(named);
    assert!(fs::symlink_metadata(&link).is_err());
}

#[test]
fn what_nobody_uses_goes() {
    let dir = Folder::new("tidy");
    let day = Duration::from_secs(24 * 60 * 60);
    let file = |name: &str, age: Duration| {
        let f = File::create(dir.0.join(name)).unwrap();
        let at = SystemTime::now() - age;
        f.set_times(fs::FileTimes::new().set_accessed(at).set_modified(at))
            .unwrap();
    };
    let other = "0123456789abcdef-libbyway_preload.so";
    let old = "fedcba9876543210-libbyway_preload.so";
    let unfinished = format!(".{other}.12-34");
    file(other, day);
    file(old, 40 * day);
    file(&unfinished, day);
    file("libbyway_preload.so", 40 * day);
    inode(&dir);
    let is_left = |name: &str| dir.0.join(name).exists();
    assert!(is_left(other) && is_left("libbyway_preload.so"));
    assert!(!is_left(old) && !is_left(&unfinished));
    assert!(is_of_a_version(NAME));
}

#[test]
fn named_by_itself_or_by_a_link() {
    let dir = Folder::new("named");
    let domain = dir.0.join("run-0123456789abcdef");
    let file = |path: &str| Library::File(path.into());
    let plain = Named::of(file("/opt/byway/lib.so"), &domain).unwrap();
    assert_eq!(plain.preload(None), "/opt/byway/lib.so");
    assert_eq!(plain.preload(Some("a b".into())), "a:b:/opt/byway/lib.so");
    let outer = format!("a:/c/0123456789abcdef-{END}:b");
    assert_eq!(plain.preload(Some(outer.into())), "a:b:/opt/byway/lib.so");
    for odd in ["/opt/by way/l.so", "/opt/by:way/l.so", "/opt/$ORIGIN/l.so"] {
        let named = Named::of(file(odd), &domain).unwrap();
        let link = PathBuf::from(named.preload(Some("".into())));
        assert_eq!(fs::read_link(&link).unwrap(), Path::new(odd));
        assert!(Named::of(file(odd), Path::new("/dev/a b/run-1")).is_err());
        drop(named);
        assert!(fs::symlink_metadata(&link).is_err());
    }
}

#[test]
fn known_among_what_is_mapped() {
    for line in [
        &b"7f00-7f01 r-xp 00000000 00:01 9 /memfd:libbyway_preload.so (deleted)"[..],
        b"7f00-7f01 r-xp 00000000 00:01 9 /c/0123456789abcdef-libbyway_preload.so",
    ] {
        assert!(is_mapped_by(line));
    }
    assert!(!is_mapped_by(
        b"7f00-7f01 r-xp 00000000 00:01 9 /usr/lib/libc.so.6"
    ));
}
