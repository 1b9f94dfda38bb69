#!/usr/bin/env bash
# The commands of the README: the block that it opens with runs and prints what the README has, each `byway ...` of the
# text ends with status 0, each `make` target is there.
# Invariant: the commands are read from README.md, so that one that is added there is tried here.
# Not here: what the targets do (the other suites), the wheel (python.sh), the packages in a clean Debian (debian.sh),
# `cargo install`, which builds all once more.
# usage: readme.sh BYWAY
set -u
. "$(dirname "$0")/says.sh"
byway=$(realpath "$1")
cd "$(dirname "$0")/.." || exit 1
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
readme=$PWD/README.md

# The block: a line behind `$` is typed, the others are printed. What was built is not built again.
block=$(sed -n '/^```/,/^```/p; /^## /q' "$readme" | grep -v '^```')
typed=$(sed -n 's/^\$ //p' <<<"$block"); printed=$(grep -v '^\$ ' <<<"$block")
is "the block: the first line builds" "$(head -n 1 <<<"$typed")" "make build"
(cd "$work" && timeout 120 bash -c "$(sed "1d; s|target/release/byway|'$byway'|" <<<"$typed")" >out 2>err)
is "the block: status" $? 0
# What part was carried depends on the moment; how many bytes there were does not.
plain() { sed 's/ carried, [0-9]* % of the bytes/ carried/; s/[0-9]* bytes carried, .* by the kernel/bytes carried/'; }
is "the block: what it prints" "$(cat "$work/out" "$work/err" | plain)" "$(plain <<<"$printed")"

# In the text CMD stands for any command, and demo takes minutes as it is written.
words=$(tr '\n' ' ' <"$readme" | grep -o '`byway [^`]*`' | tr -d '`' | sort -u); has "there are commands" "$words" "byway run -- "
while read -r line; do
  case $line in *" demo"*) line="$line --size 1 wc" ;; esac
  line="'$byway' ${line#byway }"
  (cd "$work" && timeout 60 bash -c "${line//CMD/true}" >out 2>&1); status=$?
  is "$line: $(tail -n 2 "$work/out")" $status 0
done <<<"$words"

targets=$(grep -oE '(^|`|; )make [a-z]+' "$readme" | sed 's/.*make //' | sort -u); has "there are targets" "$targets" install
for target in $targets; do
  make -n "$target" >"$work/out" 2>&1; status=$?; is "make $target: $(tail -n 2 "$work/out")" $status 0
  has "make help: $target" "$(make -s help)" "make $target "
done
echo "readme: $passed passed, $failed failed"
[ $failed = 0 ]
