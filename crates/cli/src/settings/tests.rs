//! Settings as the command line gives them: which runs share a domain, what a pipe and the memory are then told.
//!
//! Not here: words that cannot be used (clap), the help (flags/tests.rs).
use super::*;
use clap::Parser;
use std::path::Path;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    settings: Settings,
}

fn settings(words: &str) -> Settings {
    Line::try_parse_from(words.split(' ')).unwrap().settings
}

#[test]
fn only_usual_settings_are_shared() {
    assert!(!settings("x").is_private() && !Settings::default().is_private());
    assert!(!settings("x --memory 128 --pipe auto --decay 300").is_private());
    let own = ["--private", "--pipe base", "--capacity 64K", "--memory 64"];
    let more = [
        "--low 9",
        "--high 99",
        "--decay 1",
        "--preallocate 1",
        "--forbid spin",
    ];
    for words in own.iter().chain(&more) {
        assert!(settings(&format!("x {words}")).is_private(), "{words}");
    }
    let mut without = Settings::default();
    without.forbid_rseq();
    assert!(without.is_private());
    assert_eq!(without.forbidden(), flags::NO_RSEQ);
}

#[test]
fn what_is_forbidden_is_flags() {
    assert_eq!(settings("x").forbidden(), 0);
    let s = settings("x --forbid carry,rseq --forbid fifo");
    let all = flags::NO_CARRY | flags::NO_RSEQ | flags::NO_FIFO;
    assert_eq!(s.forbidden(), all);
}

#[test]
fn a_pipe_holds_what_was_asked_for() {
    let of = |words: &str| {
        let p = settings(words).pipes;
        (p.ring_bytes(), p.holds(), p.direct_from())
    };
    assert_eq!(of("x"), (0, 0, 0));
    assert_eq!(of("x --pipe base"), (128 << 10, 64 << 10, 0));
    assert_eq!(of("x --pipe zc"), (128 << 10, 64 << 10, 64 << 10));
    assert_eq!(of("x --pipe lp"), (512 << 10, 0, 0));
    assert_eq!(of("x --pipe lp+zc"), (512 << 10, 0, 64 << 10));
    assert_eq!(
        of("x --pipe lp --capacity 32K"),
        (64 << 10, 32 << 10, 0),
        "the capacity comes first"
    );
    assert_eq!(of("x --capacity 8M"), (8 << 20, 0, 0));
    for words in ["x --capacity 4095", "x --capacity 9M", "x --capacity k"] {
        assert!(Line::try_parse_from(words.split(' ')).is_err(), "{words}");
    }
}

#[test]
fn figures_of_memory_agree() {
    let of = |words: &str| settings(words).memory;
    assert_eq!((of("x").low(), of("x").high()), (8, 16));
    assert_eq!(of("x --low 30").high(), 60);
    assert_eq!(of("x --memory 20").high(), 10, "half of little memory");
    assert_eq!(of("x --preallocate 50").low(), 50, "what was made stays");
    for words in [
        "x --high 4",
        "x --low 4 --high 3",
        "x --preallocate 200 --memory 100",
        "x --high 2000000",
    ] {
        assert!(of(words).check().is_err(), "{words}");
    }
    assert!(of("x --low 4 --high 4").check().is_ok());
}

#[test]
fn a_list_names_programs_by_name_or_by_path() {
    let has = |list: &str, path: &str| programs::has(&list.into(), Path::new(path));
    assert!(has("gcc:ssh", "/usr/bin/ssh") && has("ssh", "ssh") && has("/bin/a", "/bin/a"));
    assert!(!has("ss", "/usr/bin/ssh") && !has("/bin/ssh", "/usr/bin/ssh") && !has("", "ssh"));
    assert!(!has("bin", "/usr/bin/ssh") && !has("::", "ssh"));
    let words = settings("x --leave a --leave b:/c/d --only e").programs;
    let told: Vec<_> = words.variables().collect();
    let expected = [("BYWAY_LEAVE", "a:b:/c/d"), ("BYWAY_ONLY", "e")].map(|(n, v)| (n, v.into()));
    assert_eq!(told, expected);
    assert!(words.leaves(&["/x/b".into()]) && !words.leaves(&["e".into()]));
    // Such a run shares its memory: its processes are told by their environment.
    assert!(!settings("x --leave a").is_private());
}
