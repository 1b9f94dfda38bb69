//! Files of settings: what is read of them, what is an error, whose files count, and what comes before what.
//!
//! Not here: whole runs with such files (tests/config.sh).
use super::*;
use crate::settings::Settings;
use clap::{Args, CommandFactory, Parser};
use std::os::unix::fs::PermissionsExt;

#[derive(Parser)]
struct Line {
    #[arg(required = true)]
    command: Vec<OsString>,
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    other: Other,
}

#[derive(Args)]
struct Other {
    #[arg(long)]
    explain: Option<String>,
    #[arg(long)]
    explain_to: Option<String>,
}

fn options() -> Command {
    let mut run = Line::command();
    run.build();
    run
}

/// A file that goes with the test.
struct Made(PathBuf);

impl Made {
    fn new(name: &str, text: &str) -> Made {
        let name = format!("byway-settings-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        Made(path)
    }
    fn opened(&self) -> (PathBuf, File) {
        (self.0.clone(), open(&self.0).unwrap())
    }
    fn mode(&self, mode: u32) -> Result<(), String> {
        std::fs::set_permissions(&self.0, PermissionsExt::from_mode(mode)).unwrap();
        // SAFETY: geteuid has no preconditions.
        trusted(&self.0.metadata().unwrap(), unsafe { libc::geteuid() })
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn keys_are_options_and_values_are_words() {
    let text =
        "# mine\npipe = \"lp\"\nmemory = 64\nprivate = true\nforbid = [\"spin\",\n  \"rseq\"]\n";
    let said = settings(text, &options()).unwrap();
    let said: Vec<_> = said
        .iter()
        .map(|(_, k, v)| (k.as_str(), v.as_deref()))
        .collect();
    let expected = [
        ("pipe", Some("lp")),
        ("memory", Some("64")),
        ("private", Some("true")),
        ("forbid", Some("spin,rseq")),
    ];
    assert_eq!(said, expected);
    let none = settings("forbid = []", &options()).unwrap();
    assert_eq!(none[0].2, None, "a list of nothing forbids nothing");
    assert!(settings("", &options()).unwrap().is_empty());
}

#[test]
fn what_cannot_be_used_is_told_with_its_line() {
    for (text, line, word) in [
        (
            "pipe = \"lp\"\n\npip = 3\n",
            3,
            "no setting `pip`; there are capacity,",
        ),
        ("\npipe = \"huge\"\n", 2, "[possible values: base, lp, zc"),
        ("capacity = \"1K\"", 1, "from 4K to 8M"),
        ("memory = 64\nmemory = 65", 2, "duplicate key"),
        ("pipe = [\"lp\"]", 1, "not a list"),
        ("forbid = [1]", 1, "a list of strings"),
        ("decay = 1.5", 1, "cannot be a float"),
        ("[pipe]\nx = 1", 1, "cannot be a table"),
        ("memory = 1\npipe = lp", 2, "quoted"),
        ("command = \"true\"", 1, "no setting `command`"),
        ("help = true", 1, "no setting `help`"),
        ("private = 2", 1, "'2'"),
    ] {
        let made = Made::new("wrong", text);
        let (path, file) = made.opened();
        let Err(e) = read(&path, file, &options()) else {
            panic!("{text} is used");
        };
        let place = format!("{}:{line}: ", path.display());
        assert!(e.starts_with(&place) && e.contains(word), "{text}: {e}");
        assert_eq!(e.lines().count(), 1, "{e}");
    }
}

#[test]
fn only_files_that_nobody_else_writes_count() {
    let made = Made::new("whose", "pipe = \"lp\"");
    for mode in [0o644, 0o600, 0o444] {
        assert_eq!(made.mode(mode), Ok(()), "{mode:o}");
    }
    for mode in [0o664, 0o646, 0o666] {
        assert!(made.mode(mode).unwrap_err().contains("go-w"), "{mode:o}");
    }
    made.mode(0o600).unwrap();
    let about = made.0.metadata().unwrap();
    let other = trusted(&about, about.uid() + 1);
    // Root's own are everybody's.
    assert_eq!(other.is_ok(), about.uid() == 0);
    let folder = std::env::temp_dir().metadata().unwrap();
    assert!(
        trusted(&folder, folder.uid())
            .unwrap_err()
            .contains("regular")
    );
    let long = Made::new("long", &"#".repeat(MOST as usize + 1));
    let (path, file) = long.opened();
    let read = read(&path, file, &options());
    assert!(matches!(read, Ok(State::Refused(why)) if why.contains("64 KiB")));
}

#[test]
fn words_come_before_files_and_the_user_before_the_system() {
    let system = Made::new(
        "system",
        "pipe = \"base\"\nmemory = 32\nforbid = [\"spin\"]",
    );
    let user = Made::new(
        "user",
        "pipe = \"lp\"\ncapacity = \"64K\"\nlow = 4\nhigh = 5",
    );
    let line = |words: &str| -> Option<Settings> {
        let given: Vec<OsString> = words.split(' ').map(OsString::from).collect();
        let matches = options().try_get_matches_from(&given[1..]).unwrap();
        let files = vec![system.opened(), user.opened()];
        let all = with_files(files, &options(), &matches, given, |_, why| panic!("{why}"));
        let all = all.unwrap()?;
        Some(Line::try_parse_from(&all[1..]).unwrap().settings)
    };
    let s = line("byway run -- x --pipe zc").unwrap();
    // 64K, which the user's file gives.
    assert_eq!(
        (s.pipes.holds(), s.pipes.ring_bytes()),
        (64 << 10, 128 << 10)
    );
    assert_eq!(
        (s.memory.memory, s.memory.low(), s.memory.high()),
        (32, 4, 5)
    );
    assert_ne!(s.forbidden(), 0);
    let s = line("byway run --pipe lp x").unwrap();
    assert_eq!(
        s.pipes.ring_bytes(),
        512 << 10,
        "--pipe sets capacity aside"
    );
    let s = line("byway run --low 6 --memory 64 x").unwrap();
    assert_eq!((s.memory.low(), s.memory.high()), (6, 16));
    assert_eq!(s.memory.memory, 64);
    let s = line("byway run --forbid carry x").unwrap();
    let carry = Line::try_parse_from(["run", "--forbid", "carry", "x"]).unwrap();
    assert_eq!(s.forbidden(), carry.settings.forbidden());
    let all = "byway run --pipe lp --memory 9 --forbid carry --low 1 x";
    assert!(line(all).is_none(), "the files have nothing to add");
}
