"""The command-line tool itself: what a command inherits from its caller, and what becomes of what nobody reads.

Invariant: plainly a case shows what any other tool that starts a command does (env). Not here: statuses and messages (run.sh).
"""
import os, signal, subprocess
from harm import case, fine, main

SIGNALS = r"""
#include <stdio.h>
#include <string.h>
int main(void) {
    char line[256];
    FILE *f = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, f))
        if (!strncmp(line, "SigBlk", 6) || !strncmp(line, "SigIgn", 6)) fputs(line, stdout);
    return 0;
}
"""
ALSO = "also 7"


def said(box, before, *options):
    """What a program is given: by this way, and by the caller itself."""
    program = box.cc("signals", SIGNALS)
    how = {"capture_output": True, "text": True, "restore_signals": False, "env": box.env}
    own = subprocess.run([program], preexec_fn=before, **how)
    through = subprocess.run([*(box.start(*options) or ["env"]), program], preexec_fn=before, **how)
    fine(own)
    fine(through)
    # LINUX posix_spawn(3) of glibc leaves 32 and 33, which are its own, ignored: so does make, and Python.
    seen, expected = ([int(line.split()[1], 16) & ~(3 << 31) for line in r.stdout.splitlines()] for r in (through, own))
    assert seen == expected, f"{through.stdout!r}, not {own.stdout!r}"
    return own.stdout


def ignores(*signals):
    def before():
        for s in signals:
            signal.signal(s, signal.SIG_IGN)
    return before


@case(ALSO)
def signals_that_are_ignored(box):
    seen = said(box, ignores(signal.SIGPIPE, signal.SIGINT, signal.SIGHUP))
    # Of a test in the background more are.
    assert int(seen.split()[-1], 16) & 0x1003 == 0x1003, seen
    if box.start():
        said(box, ignores(signal.SIGPIPE, signal.SIGINT, signal.SIGHUP), "--off")


@case(ALSO)
def every_signal_that_can_be_ignored(box):
    # LINUX signal(7): 32 and 33 are the C library's; Python refuses them.
    all_of_them = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
    said(box, ignores(*all_of_them))
    # A child of a caller that ignores SIGCHLD leaves no status to that caller, but one to its own parent.
    r = box.run("sh", "-c", "exit 7", start=box.start() or ["env"], preexec_fn=ignores(signal.SIGCHLD))
    assert r.returncode == 7, r


@case(ALSO)
def signals_that_are_not(box):
    def before():
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    said(box, before)


@case(ALSO)
def signals_that_are_blocked(box):
    def before():
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGCHLD, signal.SIGTERM, signal.SIGPIPE})
    said(box, before)
    if box.start():
        said(box, before, "--off")


@case(ALSO)
def a_writer_that_ignores_its_reader(box):
    """With SIGPIPE ignored the writer is told by an error, as its caller wanted it."""
    r = box.run("sh", "-c", "cat /dev/zero | true", preexec_fn=ignores(signal.SIGPIPE), restore_signals=False)
    assert r.returncode == 0 and "Broken pipe" in r.stderr, r.stderr
    r = box.run("sh", "-c", "cat /dev/zero | true")
    fine(r, "")


def closed(box, *command, ignored=False):
    """The command's result, where nobody reads its output any more."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, env=box.env, timeout=60,
                              preexec_fn=ignores(signal.SIGPIPE) if ignored else None, restore_signals=not ignored)
    finally:
        os.close(writer)


@case(ALSO, plain=False)
def what_nobody_reads(box):
    record = box.path("record.json")
    made = subprocess.run([box.byway, "bench", "lat-pipe", "--quick", "--runs", "1", "spin", "--json", record],
                          capture_output=True, text=True, env=box.env, timeout=300)
    fine(made)
    for words in ("doctor", "doctor -- cat", "doctor --object /bin/sh", "--help", "run --help", "bench --help", "--version",
                  f"bench compare {record} {record}", f"report {record} -o {box.path('page.html')}",
                  "bench lat-pipe --quick --runs 1 spin", "stat --json"):
        for ignored in False, True:
            r = closed(box, box.byway, *words.split(), ignored=ignored)
            # clap says its own help, and leaves out what cannot be said.
            assert r.returncode in (0, -signal.SIGPIPE) and not r.stderr, f"{words}: {r.returncode}: {r.stderr[-300:]}"
    r = subprocess.run([box.byway, "run", "--", "sh", "-c", '"$0" stat | true; "$0" stat --cpus | true; "$0" doctor --audit | true',
                        box.byway], capture_output=True, text=True, env=box.env, timeout=60)
    fine(r, "")


@case(ALSO, plain=False)
def a_run_outlives_its_standard_error(box):
    """What --explain says is lost; the command's status and output are not, and nothing stays behind (harm.py looks)."""
    reader, writer = os.pipe()
    os.close(reader)
    r = subprocess.run([*box.start("--explain"), "sh", "-c", "seq 100000 | cat | tail -n 1; exit 7"], stdout=subprocess.PIPE,
                       stderr=writer, text=True, env=box.env, timeout=60)
    assert (r.returncode, r.stdout) == (7, "100000\n"), r
    r = subprocess.run([*box.start(), "/nonexistent"], stderr=writer, env=box.env, timeout=60)
    assert r.returncode == 127, r
    os.close(writer)


if __name__ == "__main__":
    main()
