#!/usr/bin/env python3
"""The lab against the original tools on the same machine: NPtcp, iperf3, sockperf, each in turn with ours, round by round,
both sides bound to the same two CPUs. Medians, and the median of the ratios of neighbours; 1 if one is more than 15 % off.
Not part of CI: it is about times. What differs by nature is explained in docs/lab-method.md.
usage: crosscheck.py BYWAY [ROUNDS, default 7 [WORD: only what has it in its name]]"""
import json, os, re, shutil, socket, statistics, subprocess, sys, tempfile, time

LIMIT = 0.15
byway = os.path.realpath(sys.argv[1])
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 7
cpus = sorted(os.sched_getaffinity(0))
one, other = str(cpus[0]), str(cpus[1 % len(cpus)])
only = sys.argv[3] if len(sys.argv) > 3 else ""
work = tempfile.mkdtemp()


def port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


def run(server, client, said):
    """Runs both, each on its CPU; what the client says, which has to be there."""
    s = subprocess.Popen(["taskset", "-c", other, *server], cwd=work, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            time.sleep(0.1)  # until the server listens: none of them says when
            c = subprocess.run(["taskset", "-c", one, *client], cwd=work, capture_output=True, text=True, timeout=60)
            if found := re.search(said, c.stdout + c.stderr):
                return float(found[1])
        sys.exit(f"{client[0]} says nothing like {said}: {c.stdout}{c.stderr}")
    finally:
        s.terminate()
        s.wait()


def ours(workload, case, metric, *words, runs=1):
    c = subprocess.run([byway, "bench", workload, *words, "--runs", str(runs), "--pin", f"{one},{other}", "--json", "-", case], capture_output=True, text=True, timeout=120)
    if c.returncode:
        sys.exit(c.stderr)
    (row,) = [r for r in json.loads(c.stdout)["results"] if r["metric"] == metric]
    return sum(row["samples"], [])


def nptcp(size):
    return lambda: run(["NPtcp", "-P", (p := port()), "-l", size, "-u", size, "-p", "0"],
                       ["NPtcp", "-h", "127.0.0.1", "-P", p, "-l", size, "-u", size, "-p", "0", "-o", "np.out"], r"Mbps in +([0-9.]+) usec")


def netpipe(size, repeats):
    """NPtcp prints the fastest of three trials of about 0.1 s, so here it is that of ours too."""
    return lambda: min(ours("netpipe", "block", "latency", "--backend", "tcp", "-l", size, "-u", size, "-p", "0", "-n", repeats, runs=3))


def iperf3(*words):
    return lambda: run(["iperf3", "-s", "-1", "-B", "127.0.0.1", "-p", (p := port())],
                       ["iperf3", "-c", "127.0.0.1", "-p", p, "-t", "1", "-f", "M", *words], r"([0-9.]+) MBytes/sec +receiver")


def stream(*words):
    return lambda: ours("netperf", "TCP_STREAM", "receive", "--backend", "kernel", "-l", "1", *words)[0]


def sockperf(*words):
    seen = lambda p: run(["sockperf", "server", "-i", "127.0.0.1", "-p", p, *words],
                         ["sockperf", "ping-pong", "-i", "127.0.0.1", "-p", p, "-t", "1", "-m", "14", *words], r"avg-latency=([0-9.]+)")
    return lambda: 1e6 / (2 * seen(port()))


def answers(test):
    return lambda: ours("netperf", test, "rate", "--backend", "kernel", "-l", "1", "-r", "14,14", "-s", "0", "-S", "0")[0]


PAIRS = [  # what, unit, the original, ours, whether less is better
    ("NPtcp: 1 B", "us", nptcp("1"), netpipe("1", "2000")),
    ("NPtcp: 64 KiB", "us", nptcp("65536"), netpipe("65536", "1000")),
    ("NPtcp: 1 MiB", "us", nptcp("1048576"), netpipe("1048576", "150")),
    ("iperf3 -l 32768 -w 65500", "MiB/s", iperf3("-l", "32768", "-w", "65500"), stream("-m", "32768")),
    ("iperf3 -l 131072", "MiB/s", iperf3("-l", "131072"), stream("-m", "131072", "-s", "0", "-S", "0")),
    ("sockperf ping-pong --tcp", "1/s", sockperf("--tcp"), answers("TCP_RR")),
    ("sockperf ping-pong (UDP)", "1/s", sockperf(), answers("UDP_RR")),
]


def main():
    for program, package in [("NPtcp", "netpipe-tcp"), ("iperf3", "iperf3"), ("sockperf", "sockperf"), ("taskset", "util-linux")]:
        if not shutil.which(program):
            sys.exit(f"crosscheck.py: {program} is not installed; as root: apt-get install {package}")
    pairs = [p for p in PAIRS if only in p[0]]
    samples = [([], []) for _ in pairs]
    for r in range(rounds):
        for (_, _, original, lab), (a, b) in zip(pairs, samples):
            for f, v in [(original, a), (lab, b)][:: 1 if r % 2 else -1]:
                v.append(f())
    print(f"{'original':<26}{'unit':<7}{'original':>10}{'ours':>10}{'ratio':>8}  range of neighbours, {rounds} rounds")
    bad = 0
    for (what, unit, _, _), (a, b) in zip(pairs, samples):
        each = sorted(y / x for x, y in zip(a, b))
        ratio = statistics.median(each)
        far = abs(ratio - 1) > LIMIT
        bad += far
        print(f"{what:<26}{unit:<7}{statistics.median(a):>10.1f}{statistics.median(b):>10.1f}{ratio:>8.2f}  {each[0]:.2f}-{each[-1]:.2f}{'  FAR' if far else ''}")
    return bad > 0


try:
    sys.exit(main())
finally:
    shutil.rmtree(work)
