//! The files that give the options of `byway run` other defaults: the system's and the user's `config.toml`.
//!
//! Invariant: a key is an option's long name, and its value one that the option takes; anything else is an error with
//! file and line. A file is obeyed only if it is this user's or root's, and nobody else can write it.
//! Not here: the options (mod.rs, flags.rs), what the environment says (environment.rs), showing it all (config.rs).
use super::environment;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use serde::Deserialize;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use toml::{Spanned, Value};

/// The system's file, which is read first: the user's says more.
const SYSTEM: &str = "/etc/byway/config.toml";

/// More than any such file has.
const MOST: u64 = 64 << 10;

/// Options that a word on the command line sets aside in the files, as they say more of the same.
const SET_ASIDE: [(&str, &str); 3] = [
    ("pipe", "capacity"),
    ("low", "high"),
    ("explain", "explain-to"),
];

/// One line of a file.
pub struct Setting {
    pub key: String,
    /// As on the command line; `None`: an empty list.
    pub value: Option<String>,
    pub from: Place,
}

#[derive(Clone)]
pub struct Place {
    pub path: PathBuf,
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}:{}", self.path.display(), self.line)
    }
}

/// What became of a file.
pub enum State {
    Obeyed(Vec<Setting>),
    /// Why it is not obeyed, and what to do.
    Refused(String),
}

/// Where files are looked for, the one that says more last; none if the environment says so.
pub fn paths() -> Vec<PathBuf> {
    if environment::is_without_files() {
        return vec![];
    }
    let user = environment::config_folder().map(|d| d.join("byway/config.toml"));
    [PathBuf::from(SYSTEM)].into_iter().chain(user).collect()
}

/// Opens a file, whatever it is, without waiting for anybody.
///
/// # Errors
/// The kernel's: mostly, it is not there.
pub fn open(path: &Path) -> std::io::Result<File> {
    let how = libc::O_NONBLOCK | libc::O_NOCTTY;
    OpenOptions::new().read(true).custom_flags(how).open(path)
}

/// The files that are there. One that cannot be opened, as below another user's home, counts as none.
pub fn found() -> Vec<(PathBuf, File)> {
    let opened = paths().into_iter();
    opened
        .filter_map(|p| open(&p).ok().map(|f| (p, f)))
        .collect()
}

/// Reads a file. `run` has the options.
///
/// # Errors
/// A sentence with file and line: what cannot be used.
pub fn read(path: &Path, file: File, run: &Command) -> Result<State, String> {
    let text = match text_of(file) {
        Err(why) => return Ok(State::Refused(why)),
        Ok(text) => text,
    };
    let place = |at: usize| Place {
        path: path.into(),
        line: 1 + text.bytes().take(at).filter(|b| *b == b'\n').count(),
    };
    let settings = settings(&text, run);
    let settings = settings.map_err(|(at, why)| format!("{}: {why}", place(at)))?;
    let placed = settings.into_iter().map(|(at, key, value)| Setting {
        key,
        value,
        from: place(at),
    });
    Ok(State::Obeyed(placed.collect()))
}

/// A file's text, or why it is not obeyed.
fn text_of(file: File) -> Result<String, String> {
    let about = file.metadata().map_err(|e| e.to_string())?;
    // SAFETY: geteuid has no preconditions.
    trusted(&about, unsafe { libc::geteuid() })?;
    let mut text = String::new();
    let read = file.take(MOST + 1).read_to_string(&mut text);
    match read {
        Ok(n) if n as u64 > MOST => Err("it is longer than 64 KiB".into()),
        Ok(_) => Ok(text),
        Err(e) => Err(e.to_string()),
    }
}

/// Whether nobody but `user` and root can have written it.
fn trusted(about: &Metadata, user: u32) -> Result<(), String> {
    if !about.is_file() {
        return Err("it is no regular file".into());
    }
    if about.uid() != user && about.uid() != 0 {
        let owner = about.uid();
        return Err(format!(
            "its owner is user {owner}, not user {user} or root; make a file of your own"
        ));
    }
    if about.mode() & 0o022 != 0 {
        return Err("others can write it; chmod go-w it".into());
    }
    Ok(())
}

/// What a text says: where, key and value; or where it is wrong, and why.
type Said = Vec<(usize, String, Option<String>)>;

fn settings(text: &str, run: &Command) -> Result<Said, (usize, String)> {
    type Table = HashMap<Spanned<String>, Spanned<Value>>;
    let table = Table::deserialize(toml::Deserializer::parse(text).map_err(wrong)?);
    let mut entries: Vec<_> = table.map_err(wrong)?.into_iter().collect();
    entries.sort_unstable_by_key(|(key, _)| key.span().start);
    let known = || options(run).map(|(name, _)| name).collect::<Vec<_>>();
    entries
        .into_iter()
        .map(|(key, value)| {
            let (at, key) = (key.span().start, key.into_inner());
            let Some((_, option)) = options(run).find(|(name, _)| *name == key) else {
                let known = known().join(", ");
                return Err((
                    at,
                    format!("there is no setting `{key}`; there are {known}"),
                ));
            };
            let at = value.span().start;
            let value = word(option, value.get_ref()).map_err(|why| (at, why))?;
            if let Some(word) = &value {
                check(run, &key, word).map_err(|why| (at, why))?;
            }
            Ok((at, key, value))
        })
        .collect()
}

fn wrong(e: toml::de::Error) -> (usize, String) {
    let at = e.span().map_or(0, |s| s.start);
    (at, e.message().replace('\n', ", "))
}

/// The options of `run`, each with its name, in the order of their names.
pub fn options(run: &Command) -> impl Iterator<Item = (&str, &Arg)> {
    let mut all: Vec<_> = run
        .get_arguments()
        .filter_map(|a| a.get_long().map(|name| (name, a)))
        .filter(|(name, _)| *name != "help")
        .collect();
    all.sort_unstable_by_key(|(name, _)| *name);
    all.into_iter()
}

/// A value as a word of the command line.
fn word(option: &Arg, value: &Value) -> Result<Option<String>, String> {
    let name = option.get_id();
    match (value, option.get_value_delimiter()) {
        (Value::String(s), _) => Ok(Some(s.clone())),
        (Value::Integer(n), _) => Ok(Some(n.to_string())),
        (Value::Boolean(b), _) => Ok(Some(b.to_string())),
        (Value::Array(list), Some(between)) => {
            let words: Option<Vec<_>> = list.iter().map(Value::as_str).collect();
            let words = words.ok_or_else(|| format!("`{name}` is a list of strings"))?;
            let word = words.join(&between.to_string());
            Ok((!words.is_empty()).then_some(word))
        }
        (Value::Array(_), None) => Err(format!("`{name}` has one value, not a list")),
        (other, _) => Err(format!("`{name}` cannot be a {}", other.type_str())),
    }
}

/// Whether the option takes the word; the sentence is clap's.
fn check(run: &Command, key: &str, word: &str) -> Result<(), String> {
    let alone = run.clone().mut_args(|a| a.required(false));
    let words = ["run".into(), format!("--{key}={word}")];
    let Err(e) = alone.try_get_matches_from(words) else {
        return Ok(());
    };
    let text = e.to_string();
    let mut lines = text.lines().map(str::trim);
    let first = lines.next().unwrap_or_default();
    let values = lines.next().filter(|l| l.starts_with('['));
    let first = first.trim_start_matches("error: ");
    Err([first, values.unwrap_or_default()]
        .join(" ")
        .trim_end()
        .into())
}

/// The words of the command line with those of the files before them; `None`: the files say nothing. A file that is not
/// obeyed is told to `refused`.
///
/// # Errors
/// A sentence with file and line: what cannot be used.
pub fn with_files(
    files: Vec<(PathBuf, File)>,
    run: &Command,
    given: &ArgMatches,
    mut words: Vec<OsString>,
    refused: impl Fn(&Path, &str),
) -> Result<Option<Vec<OsString>>, String> {
    let mut last: HashMap<String, Option<String>> = HashMap::new();
    for (path, file) in files {
        match read(&path, file, run)? {
            State::Obeyed(all) => last.extend(all.into_iter().map(|s| (s.key, s.value))),
            State::Refused(why) => refused(&path, &why),
        }
    }
    let is_given = |key: &str| {
        let id = options(run).find(|(name, _)| *name == key);
        let id = id.map(|(_, option)| option.get_id().as_str());
        id.and_then(|id| given.value_source(id)) == Some(ValueSource::CommandLine)
    };
    let aside = |key: &str| SET_ASIDE.iter().any(|(by, k)| *k == key && is_given(by));
    let is_said = |key: &str| is_given(key) || environment::programs(key).is_some();
    last.retain(|key, value| value.is_some() && !is_said(key) && !aside(key));
    if last.is_empty() {
        return Ok(None);
    }
    let own = last.into_iter();
    let own = own.filter_map(|(key, value)| Some(format!("--{key}={}", value?).into()));
    // Behind the program's name and the command's.
    words.splice(2..2, own);
    Ok(Some(words))
}

#[cfg(test)]
mod tests;
