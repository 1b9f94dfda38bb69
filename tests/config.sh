#!/usr/bin/env bash
# Files of settings: what a run makes of them, whose files count, what comes before what, and `byway config`.
# usage: config.sh BYWAY
set -u
. "$(dirname "$0")/says.sh"
byway=$(realpath "$1")
work=$(mktemp -d) shm=$(mktemp -d -p /dev/shm); trap 'rm -rf "$work" "$shm"' EXIT
cd "$work" || exit 1
umask 022
unset BYWAY BYWAY_CONFIG BYWAY_RSEQ; export XDG_CONFIG_HOME=$work/etc BYWAY_SHM=$shm BYWAY_CACHE="${BYWAY_CACHE:-$work/cache}"
mkdir -p etc/byway; file=$work/etc/byway/config.toml
config() { printf '%b' "$1" >"$file"; }
setting() { "$byway" config --json | python3 -c 'import json, sys
for s in json.load(sys.stdin)["settings"]:
    if s["name"] == sys.argv[1]: print(s["value"], s["from"])' "$1"; }
limit() { "$byway" run "$@" -- "$byway" stat --json | grep -o '"limit_bytes": [0-9]*' | grep -o '[0-9]*$'; }

# No file: as ever, at the price of two opens that fail.
is "no file" "$(limit)" $((128 << 20))
strace -f -e trace=openat,open -o log "$byway" run --private -- true
is "no file: opens" "$(grep -c 'config.toml.*ENOENT' log) $(grep -c config.toml log)" "2 2"
is "no file: shown" "$("$byway" config | grep -c ': not there$')" 2
is "default" "$(setting pipe)" "auto default"; is "no default" "$(setting capacity)" "None default"

# A file's settings are those of the run; words and the environment come first.
config '# one\nmemory = 64\nexplain = "text"\nforbid = ["spin", "fifo"]\n'
is "memory" "$(limit 2>err)" $((64 << 20)); has "explain" "$(cat err)" "byway: no pipe was seen"
is "a word comes first" "$(limit --memory 32 --explain=none 2>err) $(cat err)" "$((32 << 20)) "
is "shown: memory" "$(setting memory)" "64 $file:2"
is "shown: a list" "$(setting forbid)" "spin,fifo $file:4"
is "shown: and the environment" "$(BYWAY_RSEQ=off setting forbid)" "spin,fifo,rseq $file:4, BYWAY_RSEQ"
is "BYWAY_CONFIG=off" "$(BYWAY_CONFIG=off limit 2>err) $(cat err)" "$((128 << 20)) "
has "BYWAY_CONFIG=off" "$(BYWAY_CONFIG=off "$byway" config)" "no file is read"
config 'explain-to = "told"\n'; "$byway" run -- true; is "explain-to" "$(cat told)" "no pipe was seen"
"$byway" run --explain -- true 2>err; is "--explain sets explain-to aside" "$(cat err)" "byway: no pipe was seen"
config 'off = true\n'; preload='echo "${LD_PRELOAD-none}"'
is "off" "$("$byway" run -- sh -c "$preload")" none
has "--off=false comes first" "$("$byway" run --off=false -- sh -c "$preload")" libbyway
has "--off=false before BYWAY=off" "$(BYWAY=off "$byway" run --off=false -- sh -c "$preload")" libbyway
config 'off = false\n'; is "BYWAY=off comes first" "$(BYWAY=off "$byway" run -- sh -c "$preload")" none
is "shown: BYWAY" "$(BYWAY=off setting off)" "true BYWAY"
config 'private = true\n'
domains() { # words: how many domains two runs have
  "$byway" run "$@" -- sleep 1 & sleep 0.3
  "$byway" run "$@" -- "$byway" stat --json | python3 -c 'import json, sys; print(len(json.load(sys.stdin)))'; wait
}
is "private" "$(domains)" 2; is "private: undone" "$(domains --private=false)" 1
# Lists of programs: a word comes before the environment, and that before the files.
mkdir bin; ln -s "$(command -v true)" bin/other; unset BYWAY_LEAVE BYWAY_ONLY
config 'leave = ["sh", "/usr/bin/ssh"]\n'
is "leave" "$("$byway" run -- sh -c "$preload")" none; is "leave: another" "$("$byway" run -- bash -c "$preload" | grep -c libbyway)" 1
is "leave: --leave" "$("$byway" run --leave other -- sh -c "$preload" | grep -c libbyway)" 1
is "leave: BYWAY_LEAVE" "$(BYWAY_LEAVE=other "$byway" run -- sh -c "$preload" | grep -c libbyway)" 1
is "leave: --leave before BYWAY_LEAVE" "$(BYWAY_LEAVE=other "$byway" run --leave sh -- sh -c "$preload")" none
is "leave: shown" "$(setting leave)" "sh:/usr/bin/ssh $file:1"; is "leave: BYWAY_LEAVE shown" "$(BYWAY_LEAVE=a setting leave)" "a BYWAY_LEAVE"
told='echo "$BYWAY_LEAVE $BYWAY_ONLY"'
is "leave: again and between colons" "$("$byway" run --leave a --leave b:c --only bash -- bash -c "$told")" "a:b:c bash"
has "leave: doctor" "$("$byway" doctor -- sh)" "sh: left alone by a setting, \`leave\` of $file:1"
config 'only = ["cat"]\n'; has "only: doctor" "$("$byway" doctor -- sh)" "left alone by a setting, \`only\` of $file:1"
has "only: doctor of one that is in it" "$("$byway" doctor -- cat)" "ok  it can take part"
is "only: the library is loaded for what it starts" "$("$byway" run -- sh -c "$preload" | grep -c libbyway)" 1
for bad in '' x/; do "$byway" run --leave "$bad" -- echo ran >out 2>err; is "--leave '$bad'" "$? $(cat out)" "2 "; has "--leave '$bad'" "$(cat err)" "or its path"; done
# The command's own words are not options.
config 'pipe = "lp"\n'; is "the command's words" "$("$byway" run echo --pipe x -- --off)" "--pipe x -- --off"
unset XDG_CONFIG_HOME; mkdir -p home/.config/byway; echo 'memory = 16' >home/.config/byway/config.toml
is "HOME" "$(HOME=$work/home limit)" $((16 << 20))
is "a relative XDG_CONFIG_HOME" "$(HOME=$work/home XDG_CONFIG_HOME=etc limit)" $((16 << 20))
export XDG_CONFIG_HOME=$work/etc

# The system's file comes before the user's, line by line.
config 'memory = 64\n'
both=$(unshare -rm sh -c 'mount -t tmpfs none /etc && mkdir /etc/byway &&
  printf "memory = 16\ndecay = 7\n" >/etc/byway/config.toml && "$0" config && "$0" run -- "$0" stat --json' "$byway")
is "both files: memory" "$(grep '^memory' <<<"$both" | awk '{print $2, $3}')" "64 $file:1"
is "both files: decay" "$(grep '^decay' <<<"$both" | awk '{print $2, $3}')" "7 /etc/byway/config.toml:2"
has "both files: the run" "$both" '"decay_ms": 7'; has "both files: the run" "$both" "\"limit_bytes\": $((64 << 20))"

# What cannot be used ends with status 2 and the place; a run that is off is not kept from its command.
bad() { # what, the file, line, word
  config "$2"; "$byway" run -- echo ran >out 2>err; is "$1" "$? $(cat out)" "2 "
  has "$1" "$(cat err)" "byway: $file:$3: "; has "$1" "$(cat err)" "$4"; is "$1: one line" "$(wc -l <err)" 1
  "$byway" config >out 2>err; is "$1: config" $? 2; has "$1: config" "$(cat err)" "$file:$3: "
}
bad "unknown key" 'memory = 64\n\npip = "lp"\n' 3 "there is no setting \`pip\`; there are capacity, decay,"
bad "bad value" 'pipe = "huge"\n' 1 "possible values: base"
bad "bad number" '\nmemory = 0\n' 2 "0 is not in 1.."
bad "no TOML" 'memory = 64\npipe\n' 2 "="
is "--off" "$("$byway" run --off -- echo ran) $(BYWAY=off "$byway" run -- echo ran)" "ran ran"
config 'high = 20\n'; "$byway" run --preallocate 30 -- true 2>err; is "a figure against a word" $? 2
has "a figure against a word" "$(cat err)" "--high 20 is below --preallocate 30; \`byway config\`"

# Only a file that nobody else can write counts; the command runs, and a line says so.
config 'memory = 64\n'
for mode in 664 646 666; do
  chmod $mode "$file"; is "mode $mode" "$(limit 2>err)" $((128 << 20))
  is "mode $mode" "$(cat err)" "byway: $file: not obeyed: others can write it; chmod go-w it"
done
is "mode 666: --quiet" "$("$byway" run --quiet -- echo ran 2>&1)" ran
has "mode 666: shown" "$("$byway" config)" "$file: not obeyed: others can write it"
chmod 644 "$file"; is "mode 644" "$(limit)" $((64 << 20))
if [ "$(id -u)" = 0 ]; then
  chown 12345 "$file"; is "another's file" "$(limit 2>err)" $((128 << 20)); has "another's file" "$(cat err)" "its owner is user 12345"
  chown 0 "$file"
fi
config 'quiet = true\n'; is "quiet: nothing is carried" "$(BYWAY_CACHE=/proc/none "$byway" run -- echo ran 2>&1)" ran
has "--quiet=false: nothing is carried" "$(BYWAY_CACHE=/proc/none "$byway" run --quiet=false -- echo ran 2>&1)" "nothing is carried: "
rm "$file"; mkfifo "$file"; is "a FIFO" "$(timeout 10 "$byway" run -- echo ran 2>err)" ran; has "a FIFO" "$(cat err)" "no regular file"
rm "$file"; mkdir "$file"; is "a folder" "$("$byway" run -- echo ran 2>err)" ran; has "a folder" "$(cat err)" "no regular file"
rmdir "$file"; : >"$file"; is "an empty file" "$(limit 2>err) $(cat err)" "$((128 << 20)) "
is "nothing left" "$(find "$shm" -mindepth 1)" ""
echo "config: $passed passed, $failed failed"
[ $failed = 0 ]
