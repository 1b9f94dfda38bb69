# A step of a script: its time since the test began, its words, and the step itself. Sourced.
export begun="${begun:-$(date +%s)}"
clock() { local s=$(($(date +%s) - begun)); printf '%02d:%02d' $((s / 60)) $((s % 60)); }
step() { printf '== %s %s\n' "$(clock)" "$*"; "$@"; }
