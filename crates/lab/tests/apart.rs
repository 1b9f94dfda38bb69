//! The program of a backend that lives apart: what it says of words that are not its caller's.
use std::process::Command;

#[test]
fn it_has_no_use_by_itself() {
    for words in [vec![], vec!["pair"], vec!["nothing", "0", "1", "1", "1"]] {
        let out = Command::new(env!("CARGO_BIN_EXE_byway-mimalloc"))
            .args(words)
            .output()
            .unwrap();
        assert_eq!(out.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&out.stderr).contains("byway bench mbuf"));
    }
}

#[test]
fn it_says_a_figure() {
    let out = Command::new(env!("CARGO_BIN_EXE_byway-mimalloc"))
        .args(["pair", "0", "1000000", "1048576", "1000000"])
        .output()
        .unwrap();
    assert!(out.status.success());
    let said = String::from_utf8_lossy(&out.stdout);
    let ns: f64 = said.lines().next().unwrap().parse().unwrap();
    assert!(ns > 0.0);
}
