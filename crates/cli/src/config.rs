//! `byway config`: the settings of `byway run` as they would be without words, and where each comes from.
//!
//! Invariant: each option of `byway run` is shown, with the value that a run would have; nothing is changed.
//! Not here: reading the files (settings/file.rs), the options (settings/, flags.rs).
use crate::domain;
use crate::settings::environment;
use crate::settings::file::{self, Setting, State};
use crate::settings::programs::{self, LISTS};
use clap::{Arg, Command};
use serde::Serialize;
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

#[derive(Serialize)]
pub struct Shown {
    pub name: String,
    /// None: there is none; a run finds its own.
    pub value: Option<String>,
    pub from: String,
}

#[derive(Serialize)]
pub struct File {
    pub path: String,
    /// "obeyed", or why not.
    pub state: String,
}

#[derive(Serialize)]
pub struct All {
    pub settings: Vec<Shown>,
    pub files: Vec<File>,
}

/// Shows the settings, `run` having the options; 2 if a file cannot be used.
pub fn config(run: &Command, json: bool) -> i32 {
    let all = match all(run) {
        Ok(all) => all,
        Err(why) => {
            eprintln!("byway: {why}");
            return 2;
        }
    };
    match json {
        true => match serde_json::to_string_pretty(&all) {
            Ok(text) => println!("{text}"),
            Err(e) => {
                eprintln!("byway: config: {e}");
                return 1;
            }
        },
        false => print(&all),
    }
    0
}

/// All settings, `run` having the options.
///
/// # Errors
/// A sentence: a file cannot be used, and why.
pub fn all(run: &Command) -> Result<All, String> {
    let mut said: HashMap<String, Setting> = HashMap::new();
    let mut files = vec![];
    for path in file::paths() {
        let state = match file::open(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => "not there".into(),
            Err(e) => format!("not obeyed: {e}"),
            Ok(opened) => match file::read(&path, opened, run)? {
                State::Refused(why) => format!("not obeyed: {why}"),
                State::Obeyed(all) => {
                    said.extend(all.into_iter().map(|s| (s.key.clone(), s)));
                    "obeyed".into()
                }
            },
        };
        let path = path.display().to_string();
        files.push(File { path, state });
    }
    let options = file::options(run);
    let mut settings: Vec<_> = options
        .map(|(name, option)| shown(name, option, said.get(name)))
        .collect();
    settings.extend(folders());
    Ok(All { settings, files })
}

/// One option, and what is said of it.
fn shown(name: &str, option: &Arg, said: Option<&Setting>) -> Shown {
    let usual = option.get_default_values();
    let usual: Vec<_> = usual.iter().map(|v| v.to_string_lossy()).collect();
    let mut one = Shown {
        name: name.into(),
        value: match said {
            Some(setting) => setting.value.clone(),
            None => (!usual.is_empty()).then(|| usual.join(",")),
        },
        from: said.map_or("default".into(), |s| s.from.to_string()),
    };
    match name {
        "off" if environment::is_off() => {
            one.value = Some("true".into());
            one.from = "BYWAY".into();
        }
        // The environment adds to what is forbidden.
        "forbid" if environment::is_without_rseq() => {
            let more = one
                .value
                .as_deref()
                .is_none_or(|v| !v.split(',').any(|w| w == "rseq"));
            if more {
                let before = one.value.map(|v| v + ",").unwrap_or_default();
                one.value = Some(before + "rseq");
                one.from = match said {
                    Some(setting) => format!("{}, BYWAY_RSEQ", setting.from),
                    None => "BYWAY_RSEQ".into(),
                };
            }
        }
        _ => {}
    }
    if let Some((_, variable)) = LISTS.iter().find(|(option, _)| *option == name)
        && let Some(list) = environment::programs(name)
    {
        one.value = Some(list.to_string_lossy().into_owned());
        one.from = (*variable).into();
    }
    one
}

/// What the environment alone tells.
fn folders() -> [Shown; 3] {
    let text = |p: &Path| Some(p.display().to_string());
    let or = |name: &str, is_said| if is_said { name } else { "default" }.to_string();
    let mib = environment::cache_bytes().map(|n| (n >> 20).to_string());
    [
        Shown {
            name: "cache folder".into(),
            value: text(&environment::cache_folder()),
            from: match environment::cache_variable() {
                Some("HOME") | None => "default".into(),
                Some(name) => name.into(),
            },
        },
        Shown {
            name: "cache MiB".into(),
            value: Some(mib.unwrap_or_else(|why| why)),
            from: or("BYWAY_CACHE_MIB", environment::names_cache_bytes()),
        },
        Shown {
            name: "shared memory".into(),
            value: text(&domain::folder()),
            from: or("BYWAY_SHM", environment::names_shm()),
        },
    ]
}

/// A setting that keeps a program which is known by `names` from taking part; where it comes from.
///
/// # Errors
/// A sentence: a file cannot be used, and why.
pub fn leaves(run: &Command, names: &[PathBuf]) -> Result<Option<String>, String> {
    let all = all(run)?.settings;
    let list = |name: &str| {
        let set = all.iter().find(|s| s.name == name)?;
        let value = OsString::from(set.value.as_ref()?);
        Some((names.iter().any(|n| programs::has(&value, n)), set))
    };
    let leave = list("leave").filter(|(has, _)| *has);
    let only = list("only").filter(|(has, _)| !has);
    let of = leave.or(only);
    Ok(of.map(|(_, s)| format!("`{}` of {}", s.name, s.from)))
}

fn print(all: &All) {
    let value = |s: &Shown| s.value.clone().unwrap_or_else(|| "-".into());
    let widest = |of: fn(&Shown) -> usize| all.settings.iter().map(of).max().unwrap_or(0);
    let name = widest(|s| s.name.len());
    let values = widest(|s| s.value.as_ref().map_or(1, String::len));
    println!("{:name$}  {:values$}  from", "setting", "value");
    for s in &all.settings {
        println!("{:name$}  {:values$}  {}", s.name, value(s), s.from);
    }
    println!();
    if all.files.is_empty() {
        println!("no file is read: BYWAY_CONFIG=off");
    }
    for f in &all.files {
        println!("{}: {}", f.path, f.state);
    }
}
