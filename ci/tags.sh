#!/usr/bin/env bash
# Every unsafe block says why it is sound, every ordering stronger than Relaxed which edge it makes (CONTRIBUTING.md).
set -u
cd "$(dirname "$0")/.."
bad=0
for f in $(git ls-files 'crates/*/src/*.rs' 'python/src/*.rs'); do
  awk -v f="$f" '
    { line[NR] = $0 }
    /unsafe \{|unsafe impl/ { ok = 0; for (i = NR - 6; i <= NR; i++) if (line[i] ~ /SAFETY:/) ok = 1; if (!ok) { print f ":" NR ": unsafe without SAFETY:"; bad = 1 } }
    /Ordering::(Acquire|Release|AcqRel|SeqCst)[,)]|[( ](Acquire|Release|AcqRel|SeqCst)[,)]/ && !/^use/ {
      ok = 0; for (i = NR - 4; i <= NR; i++) if (line[i] ~ /EDGE|ORDER:/) ok = 1
      if (!ok) { print f ":" NR ": ordering without EDGE or ORDER:"; bad = 1 } }
    END { exit bad }' "$f" || bad=1
done
exit $bad
