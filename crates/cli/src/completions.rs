//! `byway completions`: what a shell needs to complete this program's words.
//!
//! Invariant: every word comes from the one definition of the command line.
//! Not here: that definition (flags.rs), where the files are installed (Makefile).
use clap::builder::PossibleValuesParser;
use clap::{Command, ValueEnum};
use clap_complete::aot::{self, generate};
use std::io::Write;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Prints the completions of `shell`; 1 if standard output takes none.
pub fn print(commands: Command, shell: Shell) -> i32 {
    match std::io::stdout().write_all(&text(commands, shell)) {
        Ok(()) => 0,
        Err(e) => {
            eprintln!("byway: completions: standard output: {e}");
            1
        }
    }
}

fn text(mut commands: Command, shell: Shell) -> Vec<u8> {
    let mut out = vec![];
    match shell {
        Shell::Zsh => generate(aot::Zsh, &mut commands, "byway", &mut out),
        Shell::Fish => {
            generate(aot::Fish, &mut commands, "byway", &mut out);
            out.extend(FISH_COMMAND.as_bytes());
        }
        Shell::Bash => {
            commands.build();
            let mut commands = without_operands(commands);
            generate(aot::Bash, &mut commands, "byway", &mut out);
            out.extend(BASH_COMMAND.as_bytes());
        }
    }
    out
}

/// The commands with no words for operands that may be any: bash would be offered the operand's own name.
fn without_operands(of: Command) -> Command {
    let none = || PossibleValuesParser::new([""; 0]);
    of.mut_args(|a| {
        let is_any = a.is_positional() && a.get_possible_values().is_empty();
        if is_any { a.value_parser(none()) } else { a }
    })
    .mut_subcommands(without_operands)
}

/// What follows `--` is another program's: its own completions are used where bash-completion is loaded.
const BASH_COMMAND: &str = r#"
_byway_or_command() {
    local i
    for ((i = 2; i < COMP_CWORD; i++)); do
        [[ ${COMP_WORDS[i]} == -- ]] || continue
        if declare -F _command_offset >/dev/null; then
            _command_offset $((i + 1))
        elif ((i + 1 == COMP_CWORD)); then
            COMPREPLY=($(compgen -c -- "$2"))
        fi
        return
    done
    _byway "$@"
}
complete -F _byway_or_command -o bashdefault -o default byway
"#;

/// The same for fish.
const FISH_COMMAND: &str = r#"
function __fish_byway_command
    set -l words (commandline -opc)
    set -l dashes (contains -i -- -- $words); or return
    set -l rest $words[(math $dashes + 1)..]
    complete -C (string join -- ' ' (string escape -- $rest) (commandline -ct))
end
complete -c byway -n 'contains -- -- (commandline -opc)' -f -a '(__fish_byway_command)'
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;

    #[test]
    fn bash_is_offered_words_alone() {
        let run = Command::new("run")
            .arg(
                Arg::new("level")
                    .long("level")
                    .value_parser(["low", "high"]),
            )
            .arg(Arg::new("ANYTHING").num_args(1..));
        let shell = Command::new("shell").arg(Arg::new("SHELL").value_parser(["bash", "zsh"]));
        let all = Command::new("byway").subcommands([run, shell]);
        let text = String::from_utf8(text(all, Shell::Bash)).unwrap();
        assert!(text.contains("--level") && text.contains("low high"));
        assert!(text.contains("bash zsh"), "an operand that is one of some");
        assert!(!text.contains("ANYTHING"), "{text}");
    }
}
