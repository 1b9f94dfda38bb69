#!/usr/bin/env bash
# What `make install` gives a user: manual pages without a warning, and completions that shells load and use. `make
# uninstall` takes all of it away, and nothing else; `make dist` packs the sources.
# usage: install.sh BYWAY
set -u
. "$(dirname "$0")/says.sh"
cd "$(dirname "$0")/.." || exit 1
byway=$(realpath "$1") built=$(dirname "$(realpath "$1")")
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
root=$work/root/usr
install=(DESTDIR="$work/root" PREFIX=/usr BUILT="$built")
make -s install "${install[@]}" >"$work/out" 2>&1 || { cat "$work/out"; exit 1; }
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)

# A page for each command that the help has, and for each command of `bench`; none for those that it hides.
commands() { "$byway" "$@" --help | sed -n '/^Commands:/,/^Options:/s/^  \([a-z][a-z-]*\) .*/\1/p' | grep -vx help; }
pages() { echo byway.1; commands | sed 's/.*/byway-&.1/'; commands bench | sed 's/.*/byway-bench-&.1/'; }
is "pages" "$(cd "$root/share/man/man1" && printf '%s\n' * | sort)" "$(pages | sort)"
is "enough pages" "$(($(pages | wc -l) > 20))" 1
for p in "$root"/share/man/man1/*.1; do
  name=${p##*/}; name=${name%.1}
  is "warnings of $name" "$(groff -ww -z -man -Tutf8 "$p" 2>&1; MANROFFSEQ='' man --warnings -E UTF-8 -l "$p" 2>&1 >/dev/null)" ""
  text=$(MANWIDTH=200 man -E UTF-8 -l "$p" 2>/dev/null | col -b)
  is "name of $name" "$(sed -n '/^NAME/,/^SYNOPSIS/p' <<<"${text//‐/-}" | grep -c "^ *$name *- *[^ ]")" 1
  has "$name" "$text" "byway $version"; has "$name" "$text" "EXIT STATUS"
  is "$name: each option of its help" "$(
    # shellcheck disable=SC2086
    "$byway" $(sed 's/^byway-\(bench-\)\{0,1\}/\1/; s/^bench-/bench /; s/^byway$//' <<<"$name") --help |
      sed -n 's/^ *\(-[a-zA-Z], \)\{0,1\}\(--[a-z-]*\).*/\2/p' | while read -r option; do grep -q -e "$option" <<<"$text" || echo "$option"; done)" ""
done
is "man finds its page" "$(man -M "$root/share/man" -w byway-run)" "$root/share/man/man1/byway-run.1"

# bash loads the file by the command's name, and completes.
completed() { # the words so far, the last to be completed
  bash --norc -c '. "$0"; shift 0; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
    f=$(complete -p byway | sed "s/.*-F \([^ ]*\).*/\1/"); "$f" byway "${@: -1}" "${@: -2:1}"; echo "${COMPREPLY[*]}"' \
    "$root/share/bash-completion/completions/byway" "$@"
}
is "bash: complete -p" "$(bash --norc -c '. "$0"; complete -p byway' "$root/share/bash-completion/completions/byway" | grep -c -e '-F _byway.* byway$')" 1
is "bash: a command" "$(completed byway compl)" completions
is "bash: an option" "$(completed byway run --cap)" --capacity
is "bash: a value" "$(completed byway run --pipe l)" "lp lp+zc"
is "bash: a command of bench" "$(completed byway bench lat)" lat-pipe
is "bash: no operand's name" "$(completed byway run x | grep -c COMMAND)" 0
is "bash: a program" "$(completed byway run -- mkfif | tr ' ' '\n' | sort -u)" mkfifo
is "bash: no hidden command" "$(completed byway ping)" ""
# What follows -- is completed as that program's own words.
is "bash: a program's words" "$(bash --norc -c '_command_offset() { COMPREPLY=("offset $1"); }; . "$0"
  COMP_WORDS=(byway run --off -- grep --inc) COMP_CWORD=5; _byway_or_command byway --inc grep; echo "${COMPREPLY[*]}"' \
  "$root/share/bash-completion/completions/byway")" "offset 4"

# zsh finds the function by itself; fish, whose completions can be asked for, completes.
is "zsh: syntax" "$(zsh -f -n "$root/share/zsh/site-functions/_byway" 2>&1)" ""
is "zsh: loaded" "$(zsh -f -c "fpath=($root/share/zsh/site-functions \$fpath); autoload -U compinit; compinit -u -d $work/zdump; print \$_comps[byway]")" _byway
fish() { HOME=$work command fish --no-config -c ". $root/share/fish/vendor_completions.d/byway.fish; complete -C \"$1\"" | cut -f 1 | tr '\n' ' '; }
is "fish: an option" "$(fish 'byway run --cap')" "--capacity "
is "fish: a value" "$(fish 'byway run --pipe l')" "lp lp+zc "
is "fish: a command" "$(fish 'byway compl')" "completions "
is "fish: a program" "$(fish 'byway run -- mkfif')" "mkfifo "
has "fish: a program's words" "$(fish 'byway run --off -- byway run --cap')" "--capacity"

# Topics: a page each, the document itself; what is none is told with the words that there are.
topics=$("$byway" --help | sed -n '/^Topics/,$s/^  \([a-z]*\) .*/\1/p')
is "topics" "$topics" "$(printf '%s\n' pipes fifos sockets memory security containers)"
for t in $topics; do is "help $t" "$("$byway" help "$t")" "$(cat "docs/help/$t.md")"; done
has "help run" "$("$byway" help run)" "byway run [OPTIONS]"; has "help bench grep" "$("$byway" help bench grep)" "bench grep [OPTIONS]"
"$byway" help nosuch 2>"$work/err"; is "help nosuch" $? 2; has "help nosuch" "$(cat "$work/err")" nosuch
"$byway" completions tcsh 2>"$work/err"; is "no such shell" $? 2; has "no such shell" "$(cat "$work/err")" "bash, zsh, fish"
"$byway" manual "$work/none" 2>"$work/err"; is "no such folder" $? 2; has "no such folder" "$(cat "$work/err")" "give a folder"
# Uninstalled, and nothing is left; not even what an earlier version installed. What is another's stays.
left() { (cd "$work/root" && find . -mindepth 1 | sort | tr '\n' ' '); }
make -s uninstall "${install[@]}"; is "uninstalled" "$? $(left)" "0 "
make -s uninstall "${install[@]}"; is "uninstalled twice" "$? $(left)" "0 "
mkdir -p "$root/bin" "$root/lib/byway" && touch "$root/bin/other" "$root/lib/byway/other"; before=$(left)
make -s install "${install[@]}"
touch "$root/lib/byway/old" && echo usr/lib/byway/old >>"$root/lib/byway/installed"
make -s install "${install[@]}"; is "installed again: the old file" "$(find "$root" -name old)" ""
is "installed again" "$("$root/bin/byway" --version)" "byway $version"
is "installed again: a carried pipe" "$("$root/bin/byway" run --explain-to "$work/explained" -- sh -c 'head -c 1000000 /dev/zero | cat | wc -c')" 1000000
has "installed again: the library is found" "$(cat "$work/explained")" "pipes carried"
is "the library is the installed one" "$("$root/bin/byway" run -- sh -c 'realpath "$LD_PRELOAD"')" "$(ls "$root"/lib/byway/*-libbyway_preload.so)"
make -s uninstall "${install[@]}"; is "what is another's stays" "$(left)" "$before"
make -s install DESTDIR="$work/root" PREFIX=usr BUILT="$built" 2>"$work/err"; is "PREFIX that is no path" "$? $(left)" "2 $before"
has "PREFIX that is no path" "$(cat "$work/err")" "begins with /"

# The other targets.
targets=$(sed -n 's/^\.PHONY: //p' Makefile | tr ' ' '\n' | sort)
is "make help has all targets" "$(make -s help | awk '{print $2}' | sort)" "$targets"
is "make help fits" "$(make -s help | awk 'length > 80')" ""
for t in $targets; do has "docs/commands.md" "$(cat docs/commands.md)" "| \`make $t\`"; done
has "make clean" "$(make -n clean)" "cargo clean"
if git rev-parse -q --verify HEAD >/dev/null 2>&1; then
  make -s dist >/dev/null 2>&1; is "make dist" $? 0
  is "make dist: the sources" "$(tar tzf "target/byway-$version.tar.gz" | grep -v '/$' | sed "s|^byway-$version/||" | sort)" "$(git ls-tree -r --name-only HEAD | sort)"
fi
echo "install: $passed passed, $failed failed"
[ $failed = 0 ]
