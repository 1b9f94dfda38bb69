"""What `byway stat` says of live runs: tables of 80 columns, and OpenMetrics that is what the standard has it be.

The text is read by a parser of its own, as strict as OpenMetrics 1.0 is; bad texts show that it refuses.
usage: stat.py BYWAY
"""

import json
import os
import re
import subprocess
import sys
import tempfile

BYWAY = os.path.realpath(sys.argv[1])
NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{((?:{LABEL})(?:,{LABEL})*)?\}})? (\S+)")
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|[+-]?Inf|NaN")
# The endings that a sample's name may have, beyond its family's.
ENDINGS = {"gauge": [""], "stateset": [""], "counter": ["_total", "_created"]}


def parsed(text):
    """The families of a text: name to (kind, unit, samples); a sample is (name, labels, value)."""
    assert text.endswith("\n"), "the last line has no end"
    lines = text[:-1].split("\n")
    assert lines[-1] == "# EOF" and lines.count("# EOF") == 1, "one # EOF, at the end"
    families, family, seen, about = {}, None, set(), set()
    for line in lines[:-1]:
        if line.startswith("#"):
            word, name, *rest = re.fullmatch(rf"# (TYPE|UNIT|HELP) ({NAME}) (.+)", line).groups()
            if name != family:
                assert name not in families, f"{name} is in two places"
                family, about = name, set()
                families[name] = ["unknown", "", []]
            assert word not in about and not families[name][2], f"{word} of {name} comes late or twice"
            about.add(word)
            if word == "TYPE":
                assert rest[0] in ENDINGS, f"{name}: no type {rest[0]} here"
                families[name][0] = rest[0]
            if word == "UNIT":
                assert name.endswith("_" + rest[0]), f"{name} does not end with its unit {rest[0]}"
                families[name][1] = rest[0]
            continue
        found = SAMPLE.fullmatch(line)
        assert found, f"no sample: {line}"
        name, value = found.group(1), found.groups()[-1]
        labels = re.findall(LABEL, found.group(2) or "")
        assert len({label for label, _ in labels}) == len(labels), f"a label twice: {line}"
        kind = families[family][0]
        assert name in [family + end for end in ENDINGS[kind]], f"{name} is not of {family}, a {kind}"
        assert {"TYPE", "HELP"} <= about, f"{family} has no TYPE or no HELP"
        assert NUMBER.fullmatch(value), f"no number: {line}"
        assert (name, tuple(sorted(labels))) not in seen, f"twice: {line}"
        seen.add((name, tuple(sorted(labels))))
        if kind == "counter":
            assert float(value) >= 0, f"a counter below 0: {line}"
        if kind == "stateset":
            assert family in dict(labels) and value in "01", f"a state set: {line}"
        families[family][2].append((name, dict(labels), float(value)))
    return families


def check(what, got, wanted):
    if got != wanted:
        print(f"not ok {what}: got {got}, wanted {wanted}")
        failures.append(what)
    else:
        passed.append(what)


failures, passed = [], []
HEAD = "# TYPE a_bytes counter\n# UNIT a_bytes bytes\n# HELP a_bytes Some.\n"
assert parsed(HEAD + 'a_bytes_total{x="1"} 2\n# EOF\n')["a_bytes"] == ["counter", "bytes", [("a_bytes_total", {"x": "1"}, 2.0)]]
for bad in [
    HEAD + "a_bytes_total 2\n",
    HEAD + "a_bytes 2\n# EOF\n",
    HEAD + "a_bytes_total 2\na_bytes_total 3\n# EOF\n",
    HEAD + "a_bytes_total two\n# EOF\n",
    HEAD + "a_bytes_total -2\n# EOF\n",
    HEAD + "a_bytes_total 2\n# TYPE b gauge\n# HELP b B.\nb 1\n# HELP a_bytes More.\n# EOF\n",
    "# TYPE a gauge\n# UNIT a bytes\n# HELP a A.\na 1\n# EOF\n",
    "# TYPE a gauge\na 1\n# EOF\n",
    "a 1\n# EOF\n",
    HEAD + "# EOF\n\n",
]:
    try:
        parsed(bad)
        check(f"refused: {bad!r}", "taken", "refused")
    except (AssertionError, AttributeError, KeyError):
        passed.append(bad)

with tempfile.TemporaryDirectory(dir="/dev/shm") as shm:
    os.chmod(shm, 0o700)
    env = dict(os.environ, BYWAY_SHM=shm)

    def stat(*words, runs=True):
        run = [BYWAY, "run", "--preallocate", "6", "--"] if runs else []
        p = subprocess.run([*run, BYWAY, "stat", *words], env=env, capture_output=True, text=True)
        check(f"stat {words}", (p.returncode, p.stderr), (0, ""))
        return p.stdout

    for words in [(), ("--cpus",)]:
        check(f"80 columns {words}", [line for line in stat(*words).splitlines() if len(line) > 80], [])
    check("no run", {f: v[2] for f, v in parsed(stat("--openmetrics", runs=False)).items() if v[2]}, {})

    # One look by each form, at the same run while nothing happens in it.
    shell = f"'{BYWAY}' stat --json >json; '{BYWAY}' stat --openmetrics"
    with tempfile.TemporaryDirectory() as folder:
        p = subprocess.run([BYWAY, "run", "--preallocate", "6", "--", "sh", "-c", shell], env=env, cwd=folder, capture_output=True, text=True)
        [run] = json.load(open(f"{folder}/json"))
    families = parsed(p.stdout)
    label = {"run": str(run["runs"][0])}

    def value(family, **more):
        [v] = [v for _, labels, v in families["byway_" + family][2] if labels == label | more]
        return v

    check("the limit", value("limit_bytes"), run["limit_bytes"])
    check("taken", value("taken_bytes"), run["slabs_in_use"] * run["slab_bytes"])
    check("taken: some", value("taken_bytes") > 0, True)
    check("the most", value("taken_most_bytes"), run["slabs_high_water"] * run["slab_bytes"])
    check("decay", value("decay_seconds"), run["decay_ms"] / 1000)
    check("band", [labels["byway_band"] for _, labels, v in families["byway_band"][2] if v == 1], [run["band"]])
    for c in run["classes"]:
        of = {"class": c["class"]}
        check("present", value("present_bytes", **of), c["present_bytes"])
        check("in use", value("objects", place="in use", **of), c["in_use"])
        for counter in ["refills", "drains", "remote_returns", "failures"]:
            check(counter, value(counter, **of), c[counter])
    check("counters", sorted(f for f, v in families.items() if v[0] == "counter"), [
        "byway_" + c for c in ["drains", "failures", "fifo_cpu_seconds", "given_back_bytes", "refills", "remote_returns"]])
    for words in [("--json",), ("--cpus",)]:
        p = subprocess.run([BYWAY, "stat", "--openmetrics", *words], env=env, capture_output=True, text=True)
        check(f"not with {words}", (p.returncode, p.stdout), (2, ""))
    check("nothing left", os.listdir(shm), [])

print(f"stat: {len(passed)} passed, {len(failures)} failed")
sys.exit(bool(failures))
