//! The command line as its help shows it to a person.
//!
//! Invariant: a head says what its command does, and no line of a help is longer than a terminal of 80 columns.
//! Not here: what the commands do.
use super::commands;
use clap::Command;

/// All commands, each with its own.
fn each(c: &mut Command, look: &mut dyn FnMut(&mut Command)) {
    look(c);
    c.get_subcommands_mut().for_each(|s| each(s, look));
}

#[test]
fn every_command_is_well_formed() {
    let mut all = commands();
    all.build();
    all.debug_assert();
}

#[test]
fn the_head_says_what_the_command_does() {
    let mut all = commands();
    let heads = |c: &Command| -> Vec<_> {
        let abouts = c.get_subcommands().map(|s| s.get_about().cloned());
        abouts.map(|a| a.unwrap_or_default().to_string()).collect()
    };
    // As they are before their words, which may bring a head of their own.
    let before = heads(&all);
    all.build();
    assert_eq!(heads(&all)[..before.len()], before);
}

#[test]
fn help_fits_into_80_columns() {
    let mut all = commands();
    all.build();
    let mut wide = vec![];
    each(&mut all, &mut |c| {
        for text in [c.render_help(), c.render_long_help()] {
            let text = text.to_string();
            // What clap ends a line with is a list that may well go on in the next.
            let own = |l: &str| l.find(" [possible").unwrap_or(l.len());
            let lines = text.lines().filter(|l| own(l) > 80);
            wide.extend(lines.map(|l| format!("{}: {l}", c.get_name())));
        }
    });
    assert!(wide.is_empty(), "{}", wide.join("\n"));
}

#[test]
fn options_of_pipes_stand_under_their_heading() {
    let mut all = commands();
    all.build();
    let run = all.find_subcommand("run").unwrap();
    let under = |heading: &str| -> Vec<_> {
        let own = run
            .get_arguments()
            .filter(|a| a.get_help_heading() == Some(heading));
        own.filter_map(|a| a.get_long()).collect()
    };
    assert_eq!(under("Pipes"), ["pipe", "capacity"]);
    assert_eq!(
        under("Memory"),
        ["memory", "private", "preallocate", "low", "high", "decay"]
    );
}
