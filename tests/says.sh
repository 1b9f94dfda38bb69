# For the suites in bash: counts what holds, and says what does not. To be sourced, before any cd.
# What this user has set for runs is no matter of theirs.
export BYWAY_CONFIG=off
passed=0 failed=0
is() { # what, got, wanted
  if [ "$2" = "$3" ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "not ok $1: got [$2], wanted [$3]"; fi
}
has() { case "$2" in *"$3"*) passed=$((passed + 1)) ;; *) failed=$((failed + 1)); echo "not ok $1: [$2] does not say [$3]" ;; esac; }
hasnt() { case "$2" in *"$3"*) failed=$((failed + 1)); echo "not ok $1: [$2] says [$3]" ;; *) passed=$((passed + 1)) ;; esac; }
