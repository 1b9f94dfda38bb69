//! The manual pages: byway(1), and one for each command.
//!
//! Invariant: options and their help come from the one definition of the command line; only what that does not have, such
//! as exit statuses, stands here.
//! Not here: that definition (flags.rs), the pages of the native library (docs/man).
use clap::Command;
use clap_mangen::Man;
use roff::{Roff, bold, roman};
use std::path::Path;

const STATUS: [(&str, &str); 3] = [
    ("0", "It is done."),
    (
        "1",
        "It could not be done, or the answer is no; a sentence says so.",
    ),
    (
        "2",
        "The words cannot be used; a sentence says what to give instead.",
    ),
];

const RUN_STATUS: [(&str, &str); 4] = [
    ("126", "The command cannot be executed."),
    ("127", "The command was not found."),
    (
        "2",
        "The words cannot be used; a sentence says what to give instead.",
    ),
    (
        "other",
        "That of the command; 128 and the signal's number if a signal ended it.",
    ),
];

/// What the environment tells; docs/commands.md has the same variables.
const ENVIRONMENT: [(&str, &str); 8] = [
    ("BYWAY=off", "Every pipe is left to the kernel."),
    ("BYWAY_CONFIG=off", "No configuration file is read."),
    (
        "BYWAY_CACHE",
        "The folder of rewritten texts; usually $XDG_CACHE_HOME/byway or ~/.cache/byway.",
    ),
    ("BYWAY_CACHE_MIB", "How much that folder may hold (256)."),
    (
        "BYWAY_SHM",
        "The folder of shared memory, on a tmpfs; usually /dev/shm/byway-UID.",
    ),
    (
        "BYWAY_RSEQ=off",
        "No restartable sequences: locks instead, as with --forbid rseq.",
    ),
    (
        "XDG_CONFIG_HOME",
        "The user's configuration is $XDG_CONFIG_HOME/byway/config.toml.",
    ),
    (
        "XDG_DATA_HOME",
        "Baselines of benchmarks are in $XDG_DATA_HOME/byway/baselines.",
    ),
];

const FILES: [(&str, &str); 2] = [
    (
        "/etc/byway/config.toml",
        "Other defaults for the options of byway-run(1), for all users.",
    ),
    (
        "~/.config/byway/config.toml",
        "The same for this user; it comes first. A key is an option's long name, as in pipe = \"lp\". byway-config(1) \
         shows what is so.",
    ),
];

/// Writes all pages into `folder`; 2 if it could not.
pub fn write(commands: Command, folder: &Path) -> i32 {
    let mut commands = commands.disable_help_subcommand(true);
    commands.build();
    match pages(&commands, &commands, folder) {
        Ok(()) => 0,
        Err(e) => {
            eprintln!(
                "byway: manual: {}: {e}; give a folder that is there and can be written to",
                folder.display()
            );
            2
        }
    }
}

/// The page of `of`, and those of its commands.
fn pages(all: &Command, of: &Command, folder: &Path) -> std::io::Result<()> {
    let man = Man::new(of.clone());
    std::fs::write(folder.join(man.get_filename()), page(all, of)?)?;
    of.get_subcommands().try_for_each(|c| pages(all, c, folder))
}

fn name(of: &Command) -> &str {
    of.get_display_name().unwrap_or(of.get_name())
}

fn page(all: &Command, of: &Command) -> std::io::Result<Vec<u8>> {
    let version = all.get_version().unwrap_or_default();
    let man = Man::new(of.clone())
        .title(name(of).to_uppercase())
        .source(format!("byway {version}"))
        .manual("Byway");
    let mut out = vec![];
    man.render_title(&mut out)?;
    man.render_name_section(&mut out)?;
    synopsis(of).to_writer(&mut out)?;
    man.render_description_section(&mut out)?;
    if of.get_arguments().any(|a| !a.is_hide_set()) {
        man.render_options_section(&mut out)?;
    }
    if of.has_subcommands() {
        man.render_subcommands_section(&mut out)?;
    }
    let is_run = name(of) == "byway-run";
    let status = if is_run { &RUN_STATUS[..] } else { &STATUS };
    list("EXIT STATUS", status).to_writer(&mut out)?;
    if is_run || name(of) == name(all) || name(of) == "byway-config" {
        list("ENVIRONMENT", &ENVIRONMENT).to_writer(&mut out)?;
        list("FILES", &FILES).to_writer(&mut out)?;
    }
    see_also(all, of).to_writer(&mut out)?;
    Ok(out)
}

/// As the help has it, with the program's name in bold.
fn synopsis(of: &Command) -> Roff {
    let usage = of.clone().render_usage().to_string();
    let mut text = Roff::new();
    text.control("SH", ["SYNOPSIS"]);
    for (k, line) in usage.lines().enumerate() {
        let line = line.trim().trim_start_matches("Usage: ");
        let own = of.get_bin_name().unwrap_or(of.get_name());
        if k > 0 {
            text.control("br", []);
        }
        match line.strip_prefix(own) {
            Some(rest) => text.text([bold(own), roman(rest)]),
            None => text.text([roman(line)]),
        };
    }
    text
}

fn list(heading: &str, entries: &[(&str, &str)]) -> Roff {
    let mut text = Roff::new();
    text.control("SH", [heading]);
    for (term, about) in entries {
        text.control("TP", []);
        text.text([bold(*term)]);
        text.text([roman(*about)]);
    }
    text
}

/// The page above, and those beside.
fn see_also(all: &Command, of: &Command) -> Roff {
    let mut pages = vec![name(all)];
    pages.extend(all.get_subcommands().map(name));
    pages.retain(|p| *p != name(of));
    let pages: Vec<_> = pages.iter().map(|p| format!("{p}(1)")).collect();
    let mut text = Roff::new();
    text.control("SH", ["SEE ALSO"]);
    text.text([roman(format!("{}, byway(3)", pages.join(", ")))]);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_that_of_the_documents() {
        let documents = include_str!("../../../docs/commands.md");
        for (name, _) in ENVIRONMENT {
            assert!(documents.contains(&format!("| `{name}` |")), "{name}");
        }
    }
}
