#!/usr/bin/env python3
"""Which installed programs take part: each does a small real job with a pipe at its standard input or output.

A job runs on the plain kernel first and then under Byway. `byway run --explain` says who took no part and what was handed
back. The table of docs/compatibility.md is made from that.
Invariant: output and status are the kernel's. A program that took part in the checked-in table takes part still, unless it
is of an older version than that.
Not here: how much is carried, which is the policy's; programs that are not installed; objects and their texts (part.py).

  usage: programs.py BYWAY [NAME...]      the test: prints one line a program, exits 1 if any failed
         programs.py BYWAY --table        prints the table
         programs.py BYWAY --write        puts the table into docs/compatibility.md
"""
import datetime, os, re, subprocess, sys
from jobs import POLICY, Program, each, runs

DOCUMENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/compatibility.md")
BEGIN, END = "<!-- programs: made by tests/part/programs.py -->\n", "<!-- end of programs -->\n"
NO_PART = "takes no part"
# A pipe of less is never carried, which says nothing of its programs.
SMALL = 1 << 16
# What the cache does not know is looked at during a start, and counts from the next one on; a busy machine needs more.
STARTS = 6

LINES = "seq 100000"
LOOP = "| {} | md5sum"
PYTHON = "import asyncio, hashlib, ssl, sys\n{}\n" \
    "async def main():\n    h = hashlib.sha256(ssl.OPENSSL_VERSION[:7].encode())\n    for line in sys.stdin:\n" \
    "        h.update(line.encode())\n        sys.stdout.write(h.hexdigest() + '\\n')\n        await asyncio.sleep(0) if line.endswith('00\\n') else None\n" \
    "asyncio.run(main())\n"
JAVA = """
import java.io.*;
public class Job {
    public static void main(String[] a) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        PrintStream out = new PrintStream(new BufferedOutputStream(System.out));
        for (String s; (s = in.readLine()) != null; ) out.println(s.hashCode());
        out.flush();
    }
}
"""
RUSTC = "fn main() {" + "".join(f"println!(\"{{}}\", {i} + 1);" for i in range(800)) + "}\n"
RUST = 'fn main() { for i in 0..40000 { println!("line {i}"); } }\n'
FUNCTIONS = "for i in $(seq 2000); do echo \"int f$i(int x) { return x * $i + 1; }\"; done"
RAW = "-f rawvideo -pix_fmt yuv420p"
COMMITS = "for i in $(seq 200); do printf 'commit refs/heads/main\\ncommitter A <a@b> %d +0000\\ndata 3\\nm%02d\\n" \
    "M 644 inline f%d\\ndata 2000\\n%02000d\\n' $i $((i % 100)) $i $i; done"
TARGETS = " ".join(f"t{i}" for i in range(100))

PROGRAMS = [
    Program("node", f"{LINES} " + LOOP.format("node job.js"), files={"job.js": """
let left = '';
process.stdin.setEncoding('utf8');
process.stdin.on('data', s => { const all = (left + s).split('\\n'); left = all.pop();
                                process.stdout.write(all.map(x => x * 2 + '\\n').join('')); });
"""}),
    Program("rustc", "rustc --emit=asm -C debuginfo=2 -o - job.rs | md5sum", files={"job.rs": RUSTC}),
    Program("cargo", "rm -rf target && cargo run --quiet --offline --manifest-path crate/Cargo.toml --target-dir target | md5sum",
            needs=("cc",), files={"crate/Cargo.toml": '[package]\nname = "job"\nversion = "0.1.0"\nedition = "2021"\n[workspace]\n',
                                  "crate/src/main.rs": RUST}),
    Program("ffmpeg", f"ffmpeg -v error -f lavfi -i testsrc2=d=1:s=320x240 {RAW} - | "
            f"ffmpeg -v error {RAW} -s 320x240 -i - -c:v mpeg4 -bitexact -f framemd5 -", version="-version"),
    Program("java", f"{LINES} " + LOOP.format("java -Xshare:auto -cp . Job"), version="-version", needs=("javac",),
            setup="javac Job.java", files={"Job.java": JAVA}),
    Program("perl", f"{LINES} " + LOOP.format("perl -ne 'print $_ * 3, \"\\n\"'")),
    Program("ruby", f"{LINES} " + LOOP.format("ruby -ne 'puts $_.to_i * 3'")),
    Program("php", f"{LINES} " + LOOP.format("php -r 'while (($s = fgets(STDIN)) !== false) echo intval($s) * 3, \"\\n\";'")),
    Program("R", f"{LINES} " + LOOP.format("R --vanilla -s -e 'x <- readLines(file(\"stdin\")); writeLines(as.character(as.integer(x) * 3))'")),
    Program("git", f"rm -rf g && git init -q g && cd g && ({COMMITS}) | git fast-import --quiet --date-format=raw && "
            "git log -p main | md5sum && git archive main | tar tf - | md5sum"),
    Program("make", "make -s -j2 -f job.mk | sort | md5sum", needs=("tr",),
            files={"job.mk": f"all: {TARGETS}\n{TARGETS}:\n\t@seq 300 | sed s/^/$@/\n"}),
    Program("cmake", "cmake -P job.cmake 2>&1 | md5sum",
            files={"job.cmake": 'foreach(i RANGE 8000)\n  message("a line of a script: ${i}")\nendforeach()\n'}),
    Program("ninja", "ninja -j1 -f job.ninja | md5sum", files={"job.ninja": "rule r\n  command = seq 300 | sed s/^/$out/\n" +
            "".join(f"build t{i}: r\n" for i in range(40))}),
    Program("gcc", f"({FUNCTIONS}) " + LOOP.format("gcc -O1 -S -x c -o - -"), own=("gcc", "x86_64-linux-gnu-gcc")),
    Program("clang", f"({FUNCTIONS}) " + LOOP.format("clang -O1 -S -x c -o - -")),
    Program("bash", f"{LINES} " + LOOP.format("bash -c 'while read -r x; do echo $((x * 3)); done'")),
    Program("zsh", f"{LINES} " + LOOP.format("zsh -fc 'while read -r x; do print $((x * 3)); done'")),
    Program("busybox", f"{LINES} " + LOOP.format("busybox sed s/1/one/ | busybox sort"), version=None),
    Program("sqlite3", "(echo 'create table t(x);'; seq 30000 | sed 's/.*/insert into t values(&);/'; echo 'select x * 3 from t;') | "
            "sqlite3 :memory: | md5sum"),
    Program("psql", "sed 's/.*/select the number & of them all;/' numbers | psql -XAtq | md5sum", setup="seq 100000 105000 >numbers"),
    Program("redis-cli", "sed 's/^/echo /' numbers | redis-cli -p $REDIS | md5sum", own=("redis",), setup="seq 20000 >numbers"),
    Program("curl", "curl -s file://$PWD/text | md5sum; cat text | curl -s -T - file://$PWD/copy; md5sum <copy", setup=f"{LINES} >text"),
    Program("jq", f"{LINES} " + LOOP.format("jq -c '{x: ., y: (. * 3)}'")),
    Program("gawk", f"{LINES} " + LOOP.format("gawk '{ s += $1; print s }'")),
    Program("mawk", f"{LINES} " + LOOP.format("mawk '{ s += $1; print s }'"), version="-W version"),
    Program("xargs", f"{LINES} " + LOOP.format("xargs -n500 echo")),
    Program("parallel", f"{LINES} " + LOOP.format("parallel --will-cite --pipe -j2 -k -N20000 sed s/1/one/"), own=("parallel", "perl")),
    Program("find", "find tree -exec cat {} + | md5sum; find tree -exec echo {} ';' | sort | md5sum",
            setup="mkdir -p tree; for i in $(seq 50); do seq 2000 >tree/$i; done; rm -f tree/none"),
    Program("tar", "tar cf - tree | tar xf - -O | md5sum", setup="mkdir -p tree; for i in $(seq 50); do seq 2000 >tree/$i; done"),
    *(Program(p, f"{LINES} " + LOOP.format(f"{p} -1 | {p} -dc")) for p in ("gzip", "xz", "zstd")),
    Program("sort", f"{LINES} " + LOOP.format("sort -r")),
    Program("grep", f"{LINES} " + LOOP.format("grep -v 7")),
    Program("sed", f"{LINES} " + LOOP.format("sed 's/1/one/'")),
    Program("python3", f"{LINES} " + LOOP.format("$PYTHON job.py"), command="$PYTHON", files={"job.py": PYTHON.format("")}),
    Program("python3 with numpy", f"{LINES} " + LOOP.format("$NUMPY job_numpy.py"), version="-c 'import numpy; print(numpy.__version__)'", command="$NUMPY", own=("python3",),
            files={"job_numpy.py": PYTHON.format("import numpy\nprint(numpy.arange(200000).cumsum().tolist())")}),
]


def version(box, p):
    if p.version is None:
        return re.search(r"v([\d.]+)", subprocess.run([p.command], capture_output=True, text=True).stdout).group(1)
    (_, out), err = box.run(f"{p.command} {p.version} </dev/null")
    found = re.search(r"\d+(\.\d+)+|\d{8}", out + err)
    return found.group(0) if found else "-"


def number(text):
    return [int(n) for n in re.findall(r"\d+", text)]


def judged(p, told):
    """What the table says of it: a verdict and, unless all went through shared memory, the reason."""
    assert not told["summary"].startswith("nothing is carried: "), told["summary"]
    absent = told["took_no_part"]
    own = [a for a in absent if a["name"].startswith(p.own) and not a["left"]]
    if own:
        return NO_PART, own[0]["why"]
    why = sorted(f"{a['name']} {'left' if a['left'] else 'took no part'}: {a['why']}" for a in absent)
    large = [c for c in told["channels"] if c["carried_bytes"] + c["kernel_bytes"] >= SMALL]
    why += sorted({c["why"] for c in large if c["why"] not in POLICY})
    if why:
        return "in part", "; ".join(why)
    return "carried" if any(c["carried_bytes"] for c in large) else "takes part", ""


def looked_at(box, p):
    """Runs its job on both; version, verdict, reason."""
    for told in runs(box, p, STARTS):
        verdict = judged(p, told)
        if verdict[0] == "carried":
            break
    return version(box, p), *verdict


def checked_in():
    """The table of the document: name to version and verdict."""
    with open(DOCUMENT) as f:
        text = f.read().split(BEGIN)[1].split(END)[0]
    rows = [[c.strip() for c in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    return {r[0]: (r[1], r[2]) for r in rows[1:]}


def table(rows):
    lines = [f"{datetime.date.today()}, Linux {os.uname().release}, {libc()}:\n\n",
             "| program | version | takes part | why not all |\n", "|---|---|---|---|\n"]
    for name, (v, verdict, why) in sorted(rows.items(), key=lambda r: r[0].lower()):
        lines.append(f"| {name} | {v} | {verdict} | {why.replace('|', chr(92) + '|')} |\n")
    return "".join(lines)


def libc():
    return " ".join(os.confstr("CS_GNU_LIBC_VERSION").split())


def main():
    words = sys.argv[2:]
    before = {} if "--write" in words or "--table" in words else checked_in()
    names = [w for w in words if not w.startswith("--")]
    rows = {p.name: ("-", "not here", "") for p in PROGRAMS if not names or p.name in names}

    def judge(box, p):
        rows[p.name] = v, verdict, why = looked_at(box, p)
        was = before.get(p.name)
        if was and verdict == NO_PART and was[1] in ("carried", "takes part", "in part"):
            assert number(v) < number(was[0]), f"took part as {was[0]}, and takes none as {v}: {why}"
        return f" {v}: {verdict}{why and ': ' + why}"

    failed = each(PROGRAMS, names, judge, sys.stderr if "--table" in words else sys.stdout)
    if "--table" in words:
        print(table(rows), end="")
    elif "--write" in words and not failed:
        with open(DOCUMENT) as f:
            text = f.read()
        head, rest = text.split(BEGIN)
        with open(DOCUMENT, "w") as f:
            f.write(head + BEGIN + table(rows) + END + rest.split(END)[1])
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
