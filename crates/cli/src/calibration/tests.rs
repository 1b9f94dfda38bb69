//! What is a calibration and what is not: of texts, of files, of figures.
use super::*;
use std::os::unix::fs::{PermissionsExt, symlink};

fn place(cpus: u32) -> Place {
    Place::of("Some Processor (of 2026)", "6.18.0-x", cpus)
}

fn figures() -> Figures {
    Figures {
        time: 1_795_500_000,
        wakes: Wakes {
            n: 40,
            low: 6000,
            middle: 7100,
            high: 8000,
        },
        pulls: Pulls {
            n: 9,
            ring: 200_000,
            pull: 150_000,
            lost: 0,
        },
        spin_us: 7,
        direct_from: 1 << 20,
    }
}

/// A folder of its own, which goes with the value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let dir = std::env::temp_dir().join(format!("byway-{name}-{}", std::process::id()));
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

#[test]
fn a_text_says_what_was_written() {
    let p = place(2);
    let text = figures().text(&p.head);
    assert_eq!(Figures::parse(&text, &p.head), Some(figures()));
}

#[test]
fn nonsense_is_no_calibration() {
    let p = place(2);
    let good = figures().text(&p.head);
    let with = |a: &str, b: &str| {
        assert!(good.contains(a), "{a}");
        good.replace(a, b)
    };
    let bad = [
        String::new(),
        "\n".into(),
        FORMAT.into(),
        p.head.clone(),
        "\u{0}".repeat(300),
        "x".repeat(LONGEST),
        figures().text(&place(1).head),
        with("calibration 1", "calibration 2"),
        with("6.18.0-x", "6.18.1-x"),
        with("Some Processor", "Another Processor"),
        with("program = ", "program = 9"),
        with("spin_us = 7", "spin_us = 1"),
        with("spin_us = 7", "spin_us = 21"),
        with("spin_us = 7", "spin_us = -7"),
        with("spin_us = 7", "spin_us = +7"),
        with("spin_us = 7", "spin_us = 7 "),
        with("spin_us = 7", "spin_us = "),
        with("spin_us = 7", "spin_us = 7us"),
        with("spin_us = 7", "spin_us = 18446744073709551616"),
        with("spin_us = 7", "spin_us: 7"),
        with("spin_us = 7", "spin_us = 7\nspin_us = 8"),
        with("spin_us = 7\n", ""),
        with("spin_us = 7", "spin_us = 7\nmore = 1"),
        with("spin_us = 7", "spin_us = 7\n"),
        with("spin_us = 7", "spin_us = 7\r"),
        with("direct_from = 1048576", "direct_from = 1"),
        with("direct_from = 1048576", "direct_from = 4294967297"),
        with("direct_from = 1048576\n", "direct_from = 1048576"),
        with("time", "zeit"),
    ];
    for text in bad {
        assert_eq!(Figures::parse(&text, &p.head), None, "{text:?}");
    }
    // Cut short anywhere, as a full disk would leave it.
    for n in 0..good.len() {
        assert_eq!(Figures::parse(&good[..n], &p.head), None, "{n} bytes");
    }
}

#[test]
fn any_byte_changed_is_no_calibration_or_a_sound_one() {
    let p = place(2);
    let good = figures().text(&p.head);
    for at in 0..good.len() {
        for c in ["", "0", "9", " ", "\n", "=", "a", "99999999999999999999"] {
            let mut text = good.clone();
            text.replace_range(at..=at, c);
            if let Some(f) = Figures::parse(&text, &p.head) {
                assert!(f.spin_us == 0 || (2..=20).contains(&f.spin_us), "{text}");
                assert!([0, 1 << 20].contains(&f.direct_from), "{text}");
                describe(&f, 1);
                describe(&f, 2);
            }
        }
    }
}

#[test]
fn each_machine_kernel_and_number_of_cpus_has_a_file_of_its_own() {
    let names = [
        place(1).name,
        place(2).name,
        Place::of("Some Processor (of 2027)", "6.18.0-x", 2).name,
        Place::of("Some Processor (of 2026)", "6.18.1-x", 2).name,
        Place::of("", "", 2).name,
    ];
    for (i, a) in names.iter().enumerate() {
        assert!(
            a.bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b))
        );
        assert!(names[..i].iter().all(|b| a != b));
    }
    assert_eq!(place(2).name, place(2).name);
}

#[test]
fn a_file_is_used_that_only_we_can_have_written() {
    let dir = Folder::new("kept");
    let p = place(2);
    let path = dir.0.join(&p.name);
    assert_eq!(kept(&path, &p), None);
    fs::write(&path, figures().text(&p.head)).unwrap();
    let mode = |m| fs::set_permissions(&path, fs::Permissions::from_mode(m)).unwrap();
    for (m, used) in [
        (0o600, true),
        (0o644, true),
        (0o620, false),
        (0o602, false),
        (0o666, false),
    ] {
        mode(m);
        assert_eq!(kept(&path, &p).is_some(), used, "{m:o}");
    }
    mode(0o600);
    let long = dir.0.join("long");
    fs::write(&long, figures().text(&p.head) + &"x".repeat(5000)).unwrap();
    assert_eq!(kept(&long, &p), None);
    let link = dir.0.join("link");
    symlink(&path, &link).unwrap();
    assert_eq!(kept(&link, &p), None);
    // Nobody writes into it: an open(2) without O_NONBLOCK would wait for ever.
    let fifo = crate::domain::c_string(dir.0.join("fifo").as_os_str()).unwrap();
    // SAFETY: a path.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
    assert_eq!(kept(&dir.0.join("fifo"), &p), None);
    assert_eq!(kept(&dir.0, &p), None);
    // SAFETY: no preconditions; a path.
    if unsafe { libc::geteuid() } == 0 {
        std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
        assert_eq!(kept(&path, &p), None);
    }
}

#[test]
fn what_is_made_is_kept_and_replaces_what_cannot_be_used() {
    let dir = Folder::new("made");
    for cpus in [1, process::allowed_cpus()] {
        let p = place(cpus);
        let path = dir.0.join(&p.name);
        fs::write(&path, "not of ours").unwrap();
        let made = make(&path, &p).unwrap();
        assert_eq!(kept(&path, &p), Some(made));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }
    let others = fs::read_dir(&dir.0).unwrap().flatten();
    let hidden = others.filter(|e| e.file_name().as_encoded_bytes().starts_with(b"."));
    assert_eq!(hidden.count(), 0);
}

#[test]
fn where_it_cannot_be_kept_nothing_is_measured() {
    let dir = Folder::new("unkept");
    let p = place(2);
    assert!(make(&dir.0.join("nowhere").join(&p.name), &p).is_err());
    fs::create_dir(dir.0.join(&p.name)).unwrap();
    assert!(make(&dir.0.join(&p.name), &p).is_err());
    assert_eq!(fs::read_dir(&dir.0).unwrap().count(), 1);
    assert_eq!(obtain(Path::new("/proc/nonexistent")), Told::default());
}

#[test]
fn a_wait_spins_as_long_as_a_wake_up_takes() {
    let of = |n, low, middle, high| {
        spin_us(&Wakes {
            n,
            low,
            middle,
            high,
        })
    };
    assert_eq!(of(40, 6_000, 7_100, 8_000), 7);
    assert_eq!(of(40, 900, 1_000, 1_100), 2);
    assert_eq!(of(40, 40_000, 50_000, 60_000), 20);
    // Few; far apart; none; nonsense.
    assert_eq!(of(19, 6_000, 7_000, 8_000), 0);
    assert_eq!(of(40, 3_000, 7_000, 8_000), 0);
    assert_eq!(of(0, 0, 0, 0), 0);
    assert!((2..=20).contains(&of(u64::MAX, u64::MAX, u64::MAX, u64::MAX)));
}

#[test]
fn writes_go_direct_only_where_that_is_clearly_faster_and_on_one_cpu() {
    let of = |n, ring, pull, lost| {
        direct_from(&Pulls {
            n,
            ring,
            pull,
            lost,
        })
    };
    assert_eq!(of(9, 200, 180, 0), 1 << 20);
    assert_eq!(of(9, 200, 181, 0), 0);
    assert_eq!(of(9, 200, 100, 1), 0);
    assert_eq!(of(4, 200, 100, 0), 0);
    assert_eq!(of(0, 0, 0, 0), 0);
    let f = figures();
    assert_eq!(f.told(1).direct_from, 1 << 20);
    assert_eq!(f.told(2).direct_from, 0);
    assert_eq!(f.told(2).spin_us, 7);
}
