//! A test of this crate's order: no room uses one below it, so no circle of rooms can come to be.
//!
//! Invariant: the list is the one at the head of main.rs, and every room is in it once.
//! Not here: the order within a room that is a folder (the list in its mod.rs).
use std::fs;
use std::path::{Path, PathBuf};

/// The rooms as main.rs lists them, the lowest first.
fn listed(main: &str) -> Vec<&str> {
    let entries = main.lines().filter_map(|l| l.strip_prefix("//   "));
    entries.filter_map(|l| l.split(' ').next()).collect()
}

/// The Rust files of a room, which is a file, a folder, or both.
fn files(at: &Path) -> Vec<PathBuf> {
    if at.is_file() {
        return vec![at.into()];
    }
    let entries = fs::read_dir(at).into_iter().flatten().flatten();
    entries.flat_map(|e| files(&e.path())).collect()
}

/// The first names behind each `crate::` of a text, also of a list in braces.
fn used(text: &str) -> Vec<String> {
    let code: Vec<_> = text
        .lines()
        .filter(|l| !l.trim_start().starts_with("//"))
        .collect();
    let code = code.join("\n");
    let mut names = vec![];
    for (at, found) in code.match_indices("crate::") {
        let rest = &code[at + found.len()..];
        let Some(list) = rest.strip_prefix('{') else {
            names.push(name(rest));
            continue;
        };
        let (mut depth, mut begins) = (1, true);
        for (k, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => begins = true,
                c if begins && depth == 1 && !c.is_whitespace() => {
                    names.push(name(&list[k..]));
                    begins = false;
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    names
}

fn name(text: &str) -> String {
    let ends = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    text[..ends.unwrap_or(text.len())].into()
}

#[test]
fn no_room_uses_one_below_it() {
    let main = include_str!("main.rs");
    let rooms = listed(main);
    let modules = main.lines().filter_map(|l| l.strip_prefix("mod "));
    let mut modules: Vec<_> = modules.map(|m| m.trim_end_matches(';')).collect();
    modules.retain(|m| *m != "order");
    let mut sorted = rooms.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, modules, "the list in main.rs has every room once");
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut looked_at = 0;
    for (k, room) in rooms.iter().enumerate() {
        let mut own = files(&src.join(room));
        own.extend(files(&src.join(format!("{room}.rs"))));
        assert!(!own.is_empty(), "{room}");
        for file in own {
            for other in used(&fs::read_to_string(&file).unwrap()) {
                let at = rooms.iter().position(|r| *r == other);
                let at = at.unwrap_or_else(|| panic!("{}: {other} is no room", file.display()));
                assert!(at <= k, "{}: {other} is below it", file.display());
                looked_at += 1;
            }
        }
    }
    assert!(looked_at > 30, "{looked_at} uses were found");
}

#[test]
fn uses_are_found_in_all_their_forms() {
    let text = "use crate::a::b;\n// crate::no\nuse crate::{c, d::{e, f},\n  g as h};\nfn x() { crate::i(2) }";
    assert_eq!(used(text), ["a", "c", "d", "g", "i"]);
}
