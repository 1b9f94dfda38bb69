#!/usr/bin/env python3
"""Every object of this machine: what `byway doctor --object` would replace in a text, held against objdump's view of it.

Functions come from a parser of the unwind table here and from sized symbols; instructions come from objdump, function by
function, on every way from its start: direct branches, jump tables, landing pads, branches from other functions.
Invariant: a site stands only if objdump reaches it as an instruction, and the bytes around it as whole instructions into
which nothing branches. An instruction that Byway leaves alone must have a number that is of no interest.
Not here: objects that Byway leaves for doubt (they are counted), and whether the rewritten text works.

  usage: sweep.py BYWAY [--all] [--limit N] [FOLDER ...]      the objects of the folders; by default all that is installed
         sweep.py BYWAY [--all] [--limit N] --packages LIST   the objects of the distribution's packages in LIST

Exits 1 on any disagreement, 2 if it cannot do its work.
"""
import bisect, concurrent.futures, copy, json, os, re, shutil, stat, struct, subprocess, sys, tempfile

from objects.check import MATTER, Check, together
from objects.elf import Elf
from objects.functions import Cannot

FOLDERS = ["/usr", "/lib", "/lib64", "/bin", "/sbin", "/opt"]


def ask(byway, paths):
    """Byway's answers, one for each path."""
    p = subprocess.run([byway, "doctor", "--object", *paths, "--json"], capture_output=True)
    got = []
    for line in p.stdout.splitlines():
        try:
            got.append(json.loads(line))
        except ValueError:
            break
    odd = {q for q in paths if not q.isprintable()}
    if len(got) == len(paths) and all(g["path"] == q or q in odd for g, q in zip(got, paths)):
        return got
    if len(paths) > 1:
        return [a for q in paths for a in ask(byway, [q])]
    told = p.stderr[-300:].decode(errors="replace")
    return [f"byway doctor --object gave {p.stdout[:200]!r}, status {p.returncode}, {told}"]


def is_elf(path):
    try:
        with open(path, "rb") as f:
            e = f.read(20)
    except OSError:
        return False
    return e[:6] == b"\x7fELF\2\1" and len(e) == 20 and struct.unpack_from("<HH", e, 16) in ((2, 62), (3, 62))


def objects(folders):
    """(size, path) of each object; no link is followed, an inode counts once."""
    seen, out = set(), []
    for top in dict.fromkeys(map(os.path.realpath, folders)):
        for d, folders_, files in os.walk(top):
            folders_[:] = sorted(f for f in folders_ if os.path.join(d, f) not in ("/proc", "/sys", "/dev")
                                 and not os.path.exists(os.path.join(d, f, "CACHEDIR.TAG")))
            for f in sorted(files):
                path = os.path.join(d, f)
                try:
                    s = os.lstat(path)
                except OSError:
                    continue
                inode = s.st_dev, s.st_ino
                if stat.S_ISREG(s.st_mode) and s.st_size >= 64 and inode not in seen and is_elf(path):
                    seen.add(inode)
                    out.append((s.st_size, path))
    return out


def examine(byway, paths):
    """One task: a few objects. A list of results, one an object."""
    out, todo = [], []
    for path, answer in zip(paths, ask(byway, paths)):
        r = {"path": path, "pair": False, "data": 0, "verdict": "", "why": "", "sites": 0, "bad": [], "notes": {}}
        out.append(r)
        if isinstance(answer, str):
            r["bad"] = [f"{path}: {answer}"]
            continue
        try:
            elf = Elf(path)
            pairs = elf.pairs()
        except (OSError, ValueError, struct.error, IndexError) as e:
            r["notes"] = {f"objects that this check cannot read ({type(e).__name__})": 1}
            if answer["verdict"] == "rewritten":
                r["bad"] = [f"{path}: rewritten, and this check cannot read it: {e}"]
            continue
        r.update(pair=bool(pairs), verdict=answer["verdict"], why=answer["why"], sites=len(answer["sites"]))
        r["data"] = sum(not elf.containing(a) for a in pairs) if pairs else 0
        v = answer["verdict"]
        if v not in ("clean", "rewritten", "unable"):
            r["bad"] = [f"{path}: unknown verdict {v!r}"]
        elif v == "unable" and not answer["why"]:
            r["bad"] = [f"{path}: unable, and no reason"]
        elif not pairs and (v == "rewritten" or answer["sites"] or answer["data"]):
            r["bad"] = [f"{path}: no 0f 05 in it, and {v} with {len(answer['sites'])} sites and {answer['data']} in data"]
        elif v == "clean" and answer["sites"] or v == "rewritten" and not answer["sites"]:
            r["bad"] = [f"{path}: {v} with {len(answer['sites'])} sites"]
        elif pairs:
            todo.append((r, Check(elf, answer if v != "unable" else {**answer, "sites": []}, pairs)))
    together([c for _, c in todo])
    for r, c in todo:
        if r["verdict"] == "unable":
            r["calls"] = c.opinion()
        else:
            r["bad"] += c.run()
            r["notes"] = c.notes
    return out


def tasks(found):
    """Objects in groups of some MiB, the large ones first."""
    group, size = [], 0
    for n, path in sorted(found, key=lambda x: (-x[0], x[1])):
        group.append(path)
        size += n
        if size > 24 << 20 or len(group) >= 100:
            yield group
            group, size = [], 0
    if group:
        yield group


class Total:
    def __init__(self):
        self.objects = self.pair = self.data = self.rewritten = self.sites = self.clean = 0
        self.doubt, self.other, self.bad, self.notes = [], {}, [], {}

    def add(self, r, name=None):
        name = name or r["path"]
        self.objects += 1
        self.pair += r["pair"]
        self.data += r["data"] > 0
        self.clean += r["verdict"] == "clean"
        if r["verdict"] == "rewritten":
            self.rewritten += 1
            self.sites += r["sites"]
        if r["verdict"] == "unable":
            if r["pair"]:
                self.doubt.append((name, r["why"], r.get("calls", 0)))
            else:
                self.other[r["why"]] = self.other.get(r["why"], 0) + 1
        self.bad += r["bad"]
        for k, n in r["notes"].items():
            a, b = self.notes.get(k, (0, 0))
            self.notes[k] = (a + n, b + 1)

    def show(self, everything):
        print(f"{self.objects} objects, {self.pair} with 0f 05, {self.data} of them outside every function (data)")
        print(f"{self.rewritten} rewritten with {self.sites} sites, {self.clean} clean, "
              f"{len(self.doubt)} with 0f 05 leave for doubt, "
              f"{sum(self.other.values())} without are unable for other reasons")
        for why, n in sorted(self.other.items()):
            print(f"  unable: {n} without 0f 05: {why}")
        if self.doubt:
            none = sum(not n for _, _, n in self.doubt)
            print(f"  of those left for doubt, objdump reaches no call that matters in {none}")
        for name, why, n in self.doubt[:None if everything else 40]:
            print(f"  doubt: {name}: {why} (objdump reaches {n} calls that matter)")
        if len(self.doubt) > 40 and not everything:
            print(f"  doubt: {len(self.doubt) - 40} more (--all)")
        for k, (n, m) in sorted(self.notes.items()):
            print(f"  note: {n} in {m} objects: {k}")
        for b in self.bad:
            print(f"DISAGREE {b}")


def branched(elf, answer, pairs):
    """The answer with a site that begins before an instruction to which a branch leads."""
    c = Check(elf, answer, pairs)
    c.all = False
    together([c])
    c.settle()
    for k, s in enumerate(answer["sites"]):
        for f in c.holding(s["call"]) if s["kind"] == "site" and s["from"] < s["call"] else ():
            at, targets = sorted(f.linear), set(f.branches.values())
            i = bisect.bisect_left(at, s["from"])
            for j in range(i, max(i - 12, 0), -1):
                if at[j - 1] not in f.preds.get(at[j], ()) or at[j - 1] in f.branches:
                    break
                if at[j] in targets:
                    a = copy.deepcopy(answer)
                    a["sites"][k]["from"] = at[j - 1]
                    return a
    return None


def mutants(byway):
    """Wrong answers about libc: each must be seen for its own reason, or this check is worth nothing."""
    path = os.path.realpath(next(w for w in open("/proc/self/maps").read().split() if re.search(r"/libc[.-][^/]*$", w)))
    answer = ask(byway, [path])[0]
    if isinstance(answer, str) or answer["verdict"] != "rewritten" or len(answer["sites"]) < 60:
        return 0, [f"{path}: not rewritten with 60 sites or more: {answer if isinstance(answer, str) else answer['why']}"]
    elf = Elf(path)
    pairs = elf.pairs()
    free = next(a for a in range(elf.text[0][0] + 16, elf.text[0][0] + elf.text[0][2]) if not elf.containing(a))
    # A site in the middle of the list whose number is known and of interest.
    k = next(i for i, s in enumerate(answer["sites"]) if i > 20 and s["kind"] == "site" and s["number"]
             and set(s["number"]) <= MATTER - {56, 57, 58, 435} and s["to"] - s["from"] >= 5)
    site = answer["sites"][k]

    def change(**new):
        a = copy.deepcopy(answer)
        a["sites"][k].update({n.strip("_"): v for n, v in new.items()})
        return a
    c = Check(elf, answer, pairs)
    c.all = False
    together([c])
    c.run()
    wrong = {
        "from inside an instruction": (change(from_=site["from"] + 1, to=site["to"] + 1), "not whole|overlap|replaced"),
        "to inside an instruction": (change(to=max(site["to"], site["call"]) + 1), "not whole"),
        "a call elsewhere": (change(call=site["call"] + 1), "not 0f 05"),
        "another number": (change(number=[site["number"][0] + 1]), "its numbers are"),
        "another function": (change(function=site["function"] + 1), "starts at"),
        "no room": (change(to=site["from"] + 2), "no room"),
        "a call outside": (change(call=free, from_=free - 5, to=free), "not 0f 05|outside"),
        "a bridge that is none": (change(kind="bridge"), "not a call or jump"),
        "a site left out": ({**answer, "sites": answer["sites"][:k] + answer["sites"][k + 1:]}, "missed"),
        "twice the same": ({**answer, "sites": answer["sites"] + [site]}, "overlap"),
        "more in data": ({**answer, "data": answer["data"] + 1}, "outside every function"),
        "a branch into the bytes": (branched(elf, answer, pairs), "leads to"),
    }
    bad = [f"{path}: the right answer is not agreed to: {len(c.bad)} times"] if c.bad else []
    bad += [f"{path}: this check cannot be tried: {n}" for n, (a, _) in wrong.items() if not a]
    checks = {n: (Check(elf, a, pairs), why) for n, (a, why) in wrong.items() if a}
    for c, _ in checks.values():
        c.all = False
    together([c for c, _ in checks.values()])
    for n, (c, why) in checks.items():
        if not any(re.search(why, b) for b in c.run()):
            bad.append(f"a wrong answer is not seen: {n}: {c.bad[:2]}")
    return len(wrong), bad


def run(byway, found, total, names=None):
    """All objects, by two workers."""
    with concurrent.futures.ProcessPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        for results in pool.map(examine, *zip(*[(byway, t) for t in tasks(found)])) if found else ():
            for r in results:
                name = r["path"]
                if names:
                    name = names(name)
                    r["bad"] = [b.replace(r["path"], name) for b in r["bad"]]
                total.add(r, name)


def packages(byway, listed, limit, total):
    """Each package is downloaded without what it depends on, unpacked, swept over and removed."""
    want = [w for w in (re.sub("#.*", "", line).strip() for line in open(listed)) if w][:limit]
    env = {**os.environ, "LC_ALL": "C"}
    if subprocess.run(["apt-get", "-qq", "update"], env=env).returncode:
        print("apt-get update failed: the lists of last time serve")
    show = ["apt-cache", "show", "--no-all-versions", *want]
    known = set(re.findall(r"^Package: (\S+)$", subprocess.run(show, capture_output=True, text=True, env=env).stdout, re.M))
    missing = [w for w in want if w not in known]
    if missing:
        print(f"{len(missing)} packages are not to be had: {' '.join(missing)}")
    want = [w for w in want if w in known]
    swept = 0
    for k in range(0, len(want), 12):
        with tempfile.TemporaryDirectory(prefix="byway-sweep-") as t:
            # apt's own user may write there.
            os.chmod(t, 0o755)
            get = ["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download"]
            if subprocess.run(get + want[k:k + 12], cwd=t, env=env, capture_output=True).returncode:
                for w in want[k:k + 12]:
                    there = any(n.startswith(w + "_") for n in os.listdir(t))
                    if not there and subprocess.run(get + [w], cwd=t, env=env).returncode:
                        print(f"{w} could not be downloaded")
            for n in sorted(os.listdir(t)):
                to = os.path.join(t, n.split("_")[0])
                if subprocess.run(["dpkg-deb", "-x", os.path.join(t, n), to]).returncode:
                    print(f"{n} could not be unpacked")
                    continue
                os.remove(os.path.join(t, n))
                swept += 1
            run(byway, objects([t]), total, lambda p: p[len(os.path.realpath(t)) + 1:].replace("/", ":/", 1))
        print(f"{min(k + 12, len(want))} of {len(want)} packages, {total.objects} objects, {len(total.bad)} disagreements",
              flush=True)
    print(f"{swept} packages")
    return swept


def main(v):
    args, everything, limit, listed = [], False, None, None
    i = 1
    while i < len(v):
        if v[i] == "--all":
            everything = True
        elif v[i] in ("--limit", "--packages") and i + 1 < len(v):
            if v[i] == "--limit":
                limit = int(v[i + 1])
            else:
                listed = v[i + 1]
            i += 1
        elif v[i].startswith("-"):
            return usage()
        else:
            args.append(v[i])
        i += 1
    if not args or listed and len(args) > 1 or listed and not os.path.isfile(listed):
        return usage()
    missing = [t for t in ("objdump", *(("apt-get", "apt-cache", "dpkg-deb") if listed else ())) if not shutil.which(t)]
    byway, total = os.path.abspath(args[0]), Total()
    if missing or not os.access(byway, os.X_OK):
        print(f"not to be had: {' '.join(missing) or byway}", file=sys.stderr)
        return 2
    folders = [f for f in args[1:] or FOLDERS if os.path.isdir(f)]
    if len(folders) < len(args) - 1:
        return usage()
    try:
        n, bad = mutants(byway)
        print(f"{n} wrong answers about libc, {n - sum('a wrong answer' in b for b in bad)} of them seen")
        total.bad += bad
        if listed:
            packages(byway, listed, limit, total)
        else:
            run(byway, objects(folders)[:limit], total)
            if len(args) == 1 and limit is None and not total.rewritten:
                total.bad.append("no object of this machine is rewritten")
    except Cannot as e:
        print(e, file=sys.stderr)
        return 2
    if not total.objects:
        total.bad.append("no object was found")
    total.show(everything)
    print(f"{len(total.bad)} disagreements")
    return int(bool(total.bad))


def usage():
    print(__doc__.split("\n\n")[2], file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv))
