#!/usr/bin/env python3
"""Other limits, name spaces and files that change under a run: what a user does to a program is done as without Byway.

Invariant: statuses, outputs and messages are the kernel's. Not here: memory (memory.py), control groups (groups.py), other users (users.py),
`byway run` itself (spaces.py).
"""
import os, shutil, subprocess, time
from harm import Skip, case, fine, main

PIPES = "head -c 3000000 /dev/zero | cat | cat | wc -c"


@case("audit")
def a_small_stack(box):
    """RLIMIT_STACK: a start needs some KiB more."""
    for size in (64, 128):
        fine(box.run("sh", "-c", f"ulimit -s {size}; {PIPES}"), "3000000\n")


@case("audit")
def little_data(box):
    """RLIMIT_DATA counts private memory alone."""
    fine(box.run("sh", "-c", f"ulimit -d 3000; {PIPES}"), "3000000\n")


@case("audit")
def the_time_of_the_cpu(box):
    """RLIMIT_CPU ends the program, and nobody else."""
    r = box.run("sh", "-c", f"(ulimit -t 1; while :; do :; done) | cat; {PIPES}")
    assert r.returncode == 0 and r.stdout == "3000000\n", r


@case("audit")
def few_files_in_the_middle(box):
    """RLIMIT_NOFILE lowered while pipes are carried: an exec hands them back with none left."""
    text = "exec 5</dev/null 6</dev/null 7</dev/null; (head -c 900000 /dev/zero; ulimit -n 8; head -c 100 /dev/zero) | (sleep 0.1; ulimit -n 8; cat) | wc -c"
    fine(box.run("bash", "-c", text), "900100\n")


@case("audit")
def a_user_name_space(box):
    if subprocess.run(["unshare", "-r", "true"], capture_output=True).returncode:
        raise Skip("no user name space may be made")
    fine(box.run("unshare", "-r", "sh", "-c", PIPES), "3000000\n")
    fine(box.run("sh", "-c", "head -c 3000000 /dev/zero | unshare -rmiun cat | wc -c"), "3000000\n")


@case("audit")
def another_cpu(box):
    """The mask is changed while the pipes are carried."""
    text = "head -c 60000000 /dev/zero | cat | cat | wc -c & sleep 0.02; for p in $(pgrep -P $$); do taskset -cp 0 $p >/dev/null; done; wait"
    fine(box.run("bash", "-c", text), "60000000\n")


@case("audit")
def a_real_time_class(box):
    if not shutil.which("chrt") or subprocess.run(["chrt", "-f", "1", "true"], capture_output=True).returncode:
        raise Skip("no real-time class may be had")
    fine(box.run("sh", "-c", "head -c 3000000 /dev/zero | chrt -f 1 cat | chrt -r 1 cat | wc -c"), "3000000\n")


@case("audit", plain=False)
def the_library_goes(box):
    """Byway is removed while a run goes on: what starts then is told of no library."""
    folder = box.path("installed")
    os.mkdir(folder)
    for name in ("byway", "libbyway_preload.so"):
        shutil.copy(os.path.join(os.path.dirname(box.byway), name), folder)
    text = f"echo one | cat; rm -r {folder}; echo two | cat; {PIPES}"
    fine(box.run("sh", "-c", text, start=[os.path.join(folder, "byway"), "run", "--"]), "one\ntwo\n3000000\n")


@case("audit")
def the_program_goes(box):
    """A program's file is removed, and made anew, while it runs."""
    program = box.path("cat")
    shutil.copy(shutil.which("cat"), program)
    text = f"(head -c 100000 /dev/zero; rm {program}; head -c 100000 /dev/zero; cp /bin/true {program}; head -c 100 /dev/zero) | {program} | wc -c"
    fine(box.run("sh", "-c", text), "200100\n")


if __name__ == "__main__":
    main()
