//! Fear: a FIFO's name, mode or owner is not what its creator asked for, or a name leads to another FIFO's bytes.
use crate::check::{Heat, cases, fails, until};
use crate::kernel::{self, mkfifo, mknod_fifo};
use crate::roles::{Other, command};
use crate::stream::{at_eof, ends, fifo, flood, fresh, get, hot, put, reader, writer};
use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Command;

cases! {
    each: removed_while_open renamed_and_linked made_again_under_its_name;
    once: mode_and_umask in_the_way pr74242_mknod_without_privilege another_users_fifo;
}

const NOBODY: u32 = 65534;

fn mode_and_umask() {
    let path = fresh();
    let was = kernel::umask(0o027);
    mkfifo(&path, 0o666).expect("mkfifo");
    kernel::umask(was);
    let m = fs::metadata(&path).expect("metadata");
    assert!(m.file_type().is_fifo() && !m.is_file());
    assert_eq!(m.permissions().mode() & 0o7777, 0o640);
    assert_eq!((m.len(), m.nlink()), (0, 1));
    fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("chmod");
    let (r, w) = ends(&path);
    assert_eq!(r.metadata().expect("fstat").mode() & 0o7777, 0o600);
    w.set_permissions(Permissions::from_mode(0o622))
        .expect("fchmod");
    let again = fs::symlink_metadata(&path).expect("lstat");
    assert_eq!(again.mode() & 0o7777, 0o622);
}

fn in_the_way() {
    let path = fifo();
    fails(mkfifo(&path, 0o600), libc::EEXIST);
    fails(mknod_fifo(&path, 0o600), libc::EEXIST);
    fails(fs::create_dir(&path), libc::EEXIST);
    fails(mkfifo(&path.join("below"), 0o600), libc::ENOTDIR);
    fails(mkfifo(&fresh().join("below"), 0o600), libc::ENOENT);
    fails(fs::File::create_new(&path), libc::EEXIST);
    fs::remove_file(&path).expect("unlink");
    fails(reader_of(&path), libc::ENOENT);
}

fn reader_of(path: &std::path::Path) -> std::io::Result<fs::File> {
    fs::File::open(path)
}

/// This program again, as nobody. std sets the ids between fork and exec: the whole process resigns, and the next one comes.
/// /proc/self/exe, as nobody may not search the folders above the program.
fn as_nobody(role: &str, words: &[&dyn std::fmt::Display]) -> Command {
    let mut c = Command::new("/proc/self/exe");
    c.args(command(role, words).get_args());
    if kernel::is_root() {
        c.uid(NOBODY).gid(NOBODY);
    }
    c
}

/// FREEBSD PR kern/74242: mknod(S_IFIFO) is for everybody.
fn pr74242_mknod_without_privilege() {
    let path = fresh();
    Other::start(&mut as_nobody("mknod", &[&path.display()])).done();
    let m = fs::metadata(&path).expect("metadata");
    assert!(m.file_type().is_fifo());
    if kernel::is_root() {
        assert_eq!((m.uid(), m.gid()), (NOBODY, NOBODY));
    }
    fs::set_permissions(&path, Permissions::from_mode(0o666)).expect("chmod");
    // It works, and between two users.
    let child = Other::start(&mut as_nobody(
        "write",
        &[&path.display(), &700_000, &0, &4096],
    ));
    let r = reader(&path);
    get(&r, 700_000, 0, 8192);
    child.done();
    at_eof(&r);
}

fn another_users_fifo() {
    let (path, r, w) = hot(Heat::Thread);
    if kernel::is_root() {
        Other::start(&mut as_nobody("denied", &[&path.display()])).done();
    }
    put(&w, 5000, 0, 5000);
    get(&r, 5000, 0, 700);
}

fn removed_while_open(heat: Heat) {
    let (path, r, w) = hot(heat);
    put(&w, 20_000, 0, 4096);
    fs::remove_file(&path).expect("unlink");
    assert_eq!(r.metadata().expect("fstat").nlink(), 0);
    get(&r, 20_000, 0, 8192);
    flood(&path, &r, &w, 300_000, 7, Heat::Thread);
    drop(w);
    at_eof(&r);
}

fn renamed_and_linked(heat: Heat) {
    let (path, r, w) = hot(heat);
    let (moved, linked) = (fresh(), fresh());
    fs::rename(&path, &moved).expect("rename");
    fs::hard_link(&moved, &linked).expect("link");
    std::os::unix::fs::symlink(&linked, &path).expect("symlink");
    let mut pos = 0;
    for name in [&moved, &linked, &path] {
        put(writer(name), 3000, pos, 1000);
        pos += 3000;
    }
    get(&r, pos, 0, 500);
    flood(&linked, &r, &w, 300_000, pos, heat);
    drop(w);
    at_eof(reader_behind(&r, &moved));
}

/// Another reading end of the FIFO by its other name, which finds the same end of the stream.
fn reader_behind(r: &fs::File, path: &std::path::Path) -> fs::File {
    let other = crate::stream::reader_now(path);
    let ino = |f: &fs::File| f.metadata().expect("fstat").ino();
    assert_eq!(ino(r), ino(&other));
    other
}

/// The old FIFO lives on in its ends beside the new one of the same name.
fn made_again_under_its_name(heat: Heat) {
    let mut old = Vec::new();
    let path = fresh();
    for life in 0..4 {
        mkfifo(&path, 0o600).expect("mkfifo");
        let (r, w) = ends(&path);
        flood(&path, &r, &w, 300_000, life, heat);
        put(&w, 2000, life * 1000, 2000);
        fs::remove_file(&path).expect("unlink");
        old.push((r, w));
    }
    for (life, (r, w)) in old.into_iter().enumerate().rev() {
        put(&w, 2000, life * 1000 + 2000, 2000);
        drop(w);
        get(&r, 4000, life * 1000, 3000);
        at_eof(&r);
    }
    until("the name is gone", || !path.exists());
}
