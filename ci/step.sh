# A step of a script: its time since the start, its words, and the step itself. Sourced.
step() { printf '== %02d:%02d %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"; "$@"; }
