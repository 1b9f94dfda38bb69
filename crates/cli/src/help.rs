//! `byway help TOPIC`: a page of text on what Byway does.
//!
//! Invariant: a topic's text is its document, docs/help/TOPIC.md, as it is: at most 30 lines of 80 columns.
//! Not here: the help of commands and options, which clap makes (flags.rs).
use std::ffi::OsString;

/// A topic's name, what it is about, and its text.
const TOPICS: [(&str, &str, &str); 6] = [
    (
        "pipes",
        "when a pipe is carried, and when not",
        include_str!("../../../docs/help/pipes.md"),
    ),
    (
        "fifos",
        "named FIFOs, and who else may open them",
        include_str!("../../../docs/help/fifos.md"),
    ),
    (
        "sockets",
        "UNIX stream sockets, TCP and UDP on one host",
        include_str!("../../../docs/help/sockets.md"),
    ),
    (
        "memory",
        "what a run takes, and how to limit it",
        include_str!("../../../docs/help/memory.md"),
    ),
    (
        "security",
        "what a process can do to another",
        include_str!("../../../docs/help/security.md"),
    ),
    (
        "containers",
        "docker, podman and sandboxes",
        include_str!("../../../docs/help/containers.md"),
    ),
];

/// The list of topics, as the end of the help.
pub fn topics() -> String {
    let lines = TOPICS.map(|(name, about, _)| format!("  {name:<12} {about}"));
    format!("Topics (byway help TOPIC):\n{}", lines.join("\n"))
}

/// The text of a topic, if `words` ask for one.
pub fn asked(mut words: impl Iterator<Item = OsString>) -> Option<&'static str> {
    let (help, topic) = (words.next()?, words.next()?);
    if help != "help" || words.next().is_some() {
        return None;
    }
    let found = TOPICS.iter().find(|(name, ..)| topic == *name);
    found.map(|(_, _, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &str) -> Option<&'static str> {
        asked(words.split(' ').map(OsString::from))
    }

    #[test]
    fn a_topic_fits_a_screen() {
        for (name, _, text) in TOPICS {
            assert!(text.lines().count() <= 30, "{name}");
            assert!(text.lines().all(|l| l.chars().count() <= 80), "{name}");
            assert!(
                text.to_lowercase().starts_with(&format!("# {name}\n")),
                "{name}"
            );
            assert_eq!(of(&format!("help {name}")), Some(text));
            assert!(topics().contains(name));
        }
    }

    #[test]
    fn what_a_topic_names_is_there() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (name, _, text) in TOPICS {
            let words = text.split(|c: char| c.is_whitespace() || ",;:()".contains(c));
            let named = words.filter(|w| w.starts_with("docs/"));
            let mut named = named.map(|w| w.trim_end_matches('.')).peekable();
            assert!(named.peek().is_some(), "{name} names no document");
            for document in named {
                assert!(root.join(document).is_file(), "{name}: {document}");
            }
        }
    }

    #[test]
    fn what_is_no_topic_is_left_to_the_command_line() {
        for words in [
            "help",
            "help run",
            "help pipes fifos",
            "run pipes",
            "pipes",
            "",
        ] {
            assert_eq!(of(words), None, "{words}");
        }
    }
}
