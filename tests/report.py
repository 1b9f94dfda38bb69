#!/usr/bin/env python3
"""`byway report` in a real browser: what the page opens with, nothing on the console, nothing over the network, values under
pointer and keys, lines on and off, both scales, marks with units, no text on another, dark and light, paper, a phone's
width.      usage: report.py BYWAY [FOLDER FOR PICTURES]

Chromium is spoken to over two pipes (--remote-debugging-pipe): no port, no library."""
import base64, json, os, pathlib, subprocess, sys, tempfile

byway = os.path.abspath(sys.argv[1])
pictures = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
root = pathlib.Path(__file__).resolve().parent.parent
passed = failed = 0


def check(what, good, why=""):
    global passed, failed
    if good:
        passed += 1
    else:
        failed += 1
        print(f"not ok {what}: {why}")


# Remembers what each plot's canvas has written since it was last cleared: the text, where, and whether upright.
WRITTEN = """{
const write = CanvasRenderingContext2D.prototype.fillText, clear = CanvasRenderingContext2D.prototype.clearRect;
CanvasRenderingContext2D.prototype.clearRect = function (...words) {
    this.canvas.written = {};
    return clear.apply(this, words);
};
CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...rest) {
    const m = this.getTransform(), all = this.canvas.written = this.canvas.written || {};
    if (text !== '') all[text] = { x: m.a * x + m.c * y + m.e, y: m.b * x + m.d * y + m.f, turned: Math.abs(m.b) > 0.5 };
    return write.call(this, text, x, y, ...rest);
}; }"""

# Marks of all plots that have an exponent.
EXPONENTS = r"""[...document.querySelectorAll('figure.plot canvas')].flatMap(c => Object.keys(c.written || {}))
    .filter(t => /^[\d.]+e[-+]?\d/.test(t))"""

# The least distance between upright names of a plot, in pixels of the screen; the vertical axis has its label there too.
UPRIGHT = """Math.min(...[...document.querySelectorAll('figure.plot canvas')].flatMap(c => {
    const names = Object.values(c.written || {}).filter(w => w.turned);
    const last = Math.max(...names.map(w => w.y)), x = names.filter(w => w.y === last).map(w => w.x).sort((a, b) => a - b);
    return x.slice(1).map((v, i) => (v - x[i]) / devicePixelRatio);
}))"""

# Texts of the picture that is shown which lie on each other, or beyond its edge.
LIES_ON = """(() => { const svg = [...document.querySelectorAll('svg.forest')].find(s => s.getClientRects().length);
const all = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]), edge = svg.getBoundingClientRect();
const bad = all.filter(([, r]) => r.left < edge.left - 1 || r.right > edge.right + 1).map(([t]) => t);
all.forEach(([t, a], i) => all.slice(i + 1).forEach(([u, b]) => {
    const apart = a.right <= b.left || b.right <= a.left || a.bottom - 3 <= b.top || b.bottom - 3 <= a.top;
    if (!apart) bad.push(t + ' | ' + u); }));
return bad; })()"""

# Which of the two pictures are shown.
SHOWN = "[...document.querySelectorAll('svg.forest')].filter(s => s.getClientRects().length).map(s => s.classList[1]).join()"

OPEN = "[...document.querySelectorAll('details')].map(d => d.open)"


class Browser:
    """A headless Chromium, its page, and what the page complains of."""

    def __init__(self, profile):
        to, self.out = os.pipe()
        self.back, fro = os.pipe()

        def ends():
            # The browser reads commands from 3 and writes answers to 4.
            a, b = os.dup(to), os.dup(fro)
            os.dup2(a, 3), os.dup2(b, 4)

        words = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
                 "--disable-dev-shm-usage", "--no-first-run", f"--user-data-dir={profile}", "about:blank"]
        self.process = subprocess.Popen(words, preexec_fn=ends, close_fds=False, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to), os.close(fro)
        self.number, self.rest, self.events, self.session = 0, b"", [], None
        targets = self.ask("Target.getTargets")["targetInfos"]
        page = next(t["targetId"] for t in targets if t["type"] == "page")
        self.session = self.ask("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        self.ask("Page.addScriptToEvaluateOnNewDocument", source=WRITTEN)

    def message(self):
        while b"\0" not in self.rest:
            more = os.read(self.back, 1 << 20)
            if not more:
                raise SystemExit("chromium ended; is it installed?")
            self.rest += more
        one, self.rest = self.rest.split(b"\0", 1)
        return json.loads(one)

    def ask(self, method, **words):
        self.number += 1
        say = {"id": self.number, "method": method, "params": words}
        if self.session:
            say["sessionId"] = self.session
        os.write(self.out, json.dumps(say).encode() + b"\0")
        while True:
            m = self.message()
            if m.get("id") == self.number:
                if "error" in m:
                    raise SystemExit(f"{method}: {m['error']}")
                return m["result"]
            self.events.append(m)

    def run(self, script):
        r = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in r:
            raise SystemExit(f"{script}: {r['exceptionDetails']}")
        return r["result"].get("value")

    def open(self, url):
        self.events.clear()
        self.ask("Page.navigate", url=url)
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self.message())
        self.settle()

    def settle(self):
        self.run("new Promise(f => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(f, 50))))")

    def complaints(self):
        bad = []
        for e in self.events:
            method, words = e.get("method"), e.get("params", {})
            if method == "Runtime.exceptionThrown":
                bad.append(words["exceptionDetails"].get("exception", {}).get("description", "exception"))
            if method == "Runtime.consoleAPICalled" and words["type"] in ("error", "warning", "assert"):
                bad.append(str(words["args"]))
            if method == "Log.entryAdded" and words["entry"]["level"] in ("error", "warning"):
                bad.append(words["entry"]["text"])
        return bad

    def asked_for(self):
        urls = (e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent")
        return [u for u in urls if not u.startswith(("file:", "data:"))]

    def size(self, width, height, phone=False):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if phone else 1, mobile=phone)
        self.settle()

    def media(self, scheme="", medium=""):
        self.ask("Emulation.setEmulatedMedia", media=medium, features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.settle()

    def key(self, key, code):
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def picture(self, name):
        if pictures:
            pictures.mkdir(parents=True, exist_ok=True)
            data = self.ask("Page.captureScreenshot", format="png")["data"]
            (pictures / f"{name}.png").write_bytes(base64.b64decode(data))

    def end(self):
        self.ask("Browser.close") if self.process.poll() is None else None
        self.process.wait(20)


# The colours of the pixels of the first plot that are drawn at all.
COLOURS = """(() => { const c = document.querySelector('figure.plot canvas'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
const s = new Set(); for (let i = 0; i < d.length; i += 4) if (d[i + 3] === 255) s.add(d[i] * 65536 + d[i + 1] * 256 + d[i + 2]); return [...s]; })()"""


def wide_as(b, width):
    return b.run("document.documentElement.scrollWidth") <= width


def look(b, page):
    b.size(1280, 900)
    b.media("light")
    b.open(page)
    check("the summary is first", b.run("document.querySelector('section').id") == "summary")
    said = b.run("document.querySelector('.say').textContent")
    rows = b.run("document.querySelectorAll('#summary tbody tr').length")
    check("one sentence counts the rows", said.startswith(f"Of {rows} rows, ") and said.endswith("."), said)
    check("one picture", b.run(SHOWN) == "desk", b.run(SHOWN))
    check("its first row is on the first screen", b.run("document.querySelector('.forest.desk .name').getBoundingClientRect().bottom") < 300)
    check("a row for each", b.run("document.querySelectorAll('.forest.desk .name').length") == rows)
    check("no text of the picture on another", b.run(LIES_ON) == [], b.run(LIES_ON))
    # Two rounds are few: all rows but those of the old record look so.
    faint = b.run("[...document.querySelectorAll('.forest.desk g.uncertain')].filter(g => g.querySelector('[stroke-dasharray]') && getComputedStyle(g).opacity < 1).length")
    check("few rounds look uncertain", faint >= 3 and f"{faint} are uncertain" in said, (faint, said))
    check("the published tables come next", b.run("document.querySelectorAll('section')[1].id") == "published")
    check("all else is folded", not any(b.run(OPEN)))
    # A row leads to its part, and opens it.
    b.run("document.querySelector('.forest.desk a').dispatchEvent(new MouseEvent('click', {bubbles: true}))")
    b.settle()
    check("a row opens its part", b.run("document.querySelector('#fifo').closest('details').open"))
    # The others, as a reader would.
    b.run("document.querySelectorAll('section > details').forEach(d => d.open = true)")
    b.settle()
    n = b.run("document.querySelectorAll('figure.plot').length")
    check("there are plots", n >= 3, n)
    check("each plot is drawn", b.run("[...document.querySelectorAll('figure.plot')].every(f => f.querySelector('canvas'))"))
    check("marks have units, no exponents", b.run(EXPONENTS) == [], b.run(EXPONENTS))
    marks = b.run("Object.keys(document.querySelector('#fifo-elapsed-100 canvas').written)")
    check("a mark says its unit", any(m.endswith((" us", " ms")) for m in marks), marks)
    check("upright names stand apart", b.run(UPRIGHT) >= 12, b.run(UPRIGHT))
    check("no card has an empty strip", b.run("Math.max(...[...document.querySelectorAll('.readout')].map(p => p.getBoundingClientRect().height))") < 40)
    check("published figures are marked", b.run("[...document.querySelectorAll('.elsewhere caption')].every(c => /another machine/.test(c.textContent))"))
    check("published figures are there", b.run("document.querySelectorAll('.elsewhere').length") > 0)
    check("fits a desk", wide_as(b, 1280))
    light = b.run(COLOURS)
    b.picture("desk-light")

    # Values: under the keys, reached by tabbing alone, and under the pointer.
    b.run("document.querySelector('#theme').focus()")
    stops = []
    for _ in range(400):
        b.key("Tab", 9)
        stops.append(b.run("(e => e.className + '|' + e.tagName + '|' + (e.type || ''))(document.activeElement)"))
        if stops[-1].startswith("canvas"):
            break
    check("a plot is reached by keyboard", stops[-1].startswith("canvas"), stops[-1])
    check("its keys are too", any("checkbox" in s for s in stops))
    readout = "document.activeElement.closest('figure').querySelector('.readout').textContent"
    tall = b.run("document.documentElement.scrollHeight")
    b.key("ArrowRight", 39)
    first = b.run(readout)
    check("values move nothing", abs(b.run("document.documentElement.scrollHeight") - tall) < 4)
    b.key("ArrowRight", 39)
    second = b.run(readout)
    check("arrow keys tell values", first and second and first != second and any(c.isdigit() for c in first), (first, second))
    place = b.run("(r => [r.x, r.y, r.width, r.height])(document.activeElement.querySelector('.u-over').getBoundingClientRect())")
    b.ask("Input.dispatchMouseEvent", type="mouseMoved", x=place[0] + 0.1 * place[2], y=place[1] + place[3] / 2)
    b.settle()
    check("the pointer tells values", b.run(readout) == first, b.run(readout))

    # Lines on and off, scales.
    ink = "(() => { const c = document.querySelector('figure.plot canvas'); return c.toDataURL(); })()"
    was = b.run(ink)
    for which in ("label:not(.scale) input", "label.scale input"):
        b.run(f"document.querySelector('figure.plot {which}').click()")
        b.settle()
        now = b.run(ink)
        check(f"{which} changes the plot", now != was)
        b.run(f"document.querySelector('figure.plot {which}').click()")
        b.settle()
        check(f"{which} changes it back", b.run(ink) == was)

    # Dark, by the system and by the button.
    b.media("dark")
    dark = b.run("getComputedStyle(document.body).backgroundColor")
    check("dark is dark", sum(map(int, dark[4:-1].split(","))) < 150, dark)
    check("plots are dark too", set(b.run(COLOURS)) != set(light))
    b.picture("desk-dark")
    b.run("document.querySelector('#theme').click()")
    b.settle()
    again = b.run("getComputedStyle(document.body).backgroundColor")
    check("the button makes it light", sum(map(int, again[4:-1].split(","))) > 600, again)
    check("and the plots", set(b.run(COLOURS)) == set(light))

    # A phone.
    b.size(375, 812, phone=True)
    b.open(page)
    check("fits a phone", wide_as(b, 375), b.run("""[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > 376
        && !e.closest('.wide')).slice(0, 5).map(e => e.tagName + '.' + e.className).join(' ')"""))
    check("a phone has its own picture", b.run(SHOWN) == "phone", b.run(SHOWN))
    check("no text of it on another", b.run(LIES_ON) == [], b.run(LIES_ON))
    check("a table that goes on has a shadow there", b.run("""[...document.querySelectorAll('#published .wide')].filter(w => w.scrollWidth > w.clientWidth)
        .every(w => getComputedStyle(w).backgroundAttachment === 'local, local, scroll, scroll')"""))
    b.picture("phone-opening")
    b.run("document.querySelectorAll('section > details').forEach(d => d.open = true)")
    b.settle()
    check("upright names stand apart on a phone", b.run(UPRIGHT) >= 12, b.run(UPRIGHT))
    check("plots fit a phone", b.run("[...document.querySelectorAll('.uplot')].every(u => u.getBoundingClientRect().right <= 375)"))
    b.picture("phone-dark")
    b.media("light")
    b.run("document.querySelector('figure.plot').scrollIntoView()")
    b.settle()
    b.picture("phone-light")
    b.size(1280, 900)

    # Paper.
    b.media("dark")
    b.run("document.querySelector('#demo').closest('details').open = false")
    were = b.run(OPEN)
    pdf = base64.b64decode(b.ask("Page.printToPDF", printBackground=False)["data"])
    check("prints", pdf[:5] == b"%PDF-" and len(pdf) > 20_000, len(pdf))
    b.run("window.dispatchEvent(new Event('beforeprint'))")
    paper = b.run("getComputedStyle(document.documentElement).getPropertyValue('--paper').trim()")
    check("paper is light", paper == "#ffffff", paper)
    check("what is folded is printed", b.run("[...document.querySelectorAll('details')].every(d => d.open)"))
    # As wide as A4 between its margins: what is wider makes all of the page smaller, and is cut off.
    b.media("dark", "print")
    b.size(680, 960)
    check("paper holds the tables", wide_as(b, 680), b.run("document.documentElement.scrollWidth"))
    check("paper holds the plots", b.run("[...document.querySelectorAll('.uplot')].every(u => u.getBoundingClientRect().right <= 680)"))
    check("lines are told by colour on paper", b.run("getComputedStyle(document.querySelector('.keys .dot')).printColorAdjust") == "exact")
    b.media("dark")
    b.size(1280, 900)
    b.run("window.dispatchEvent(new Event('afterprint'))")
    check("and folded again", b.run(OPEN) == were and not all(were), (b.run(OPEN), were))
    if pictures:
        (pictures / "paper.pdf").write_bytes(pdf)

    check("nothing on the console", not b.complaints(), b.complaints())
    check("nothing over the network", not b.asked_for(), b.asked_for())


def changed(b, records, work):
    """`report --compare`: one row three times slower, and another kernel."""
    after, page = work / "after", work / "changed.html"
    after.mkdir()
    for name in ("fifo", "bw-pipe"):
        r = json.loads((records / f"{name}.json").read_text())
        # What two rounds on a busy machine say is nothing: eight that are nearly alike stand for them.
        for row in r["results"]:
            all_of_it = sum(row["samples"], [])
            row["samples"] = [[s * (1 + k / 100) for s in all_of_it[:1]] for k in range(8)]
        (records / f"{name}.json").write_text(json.dumps(r))
        if name == "fifo":
            r["machine"]["kernel"] = "0.0.1-test"
            slow = next(row for row in r["results"] if row["better"])
            slow["samples"] = [[s * (3 if slow["better"] == "less" else 1 / 3) for s in one] for one in slow["samples"]]
        (after / f"{name}.json").write_text(json.dumps(r))
    made = subprocess.run([byway, "report", "--compare", records, after, "-o", page], capture_output=True, text=True)
    check("report --compare", made.returncode == 0 and "3 records before, 2 after" in made.stdout, made.stdout + made.stderr)
    table = subprocess.run([byway, "bench", "compare", "--despite", "kernel", records / "fifo.json", after / "fifo.json"], capture_output=True, text=True)
    worse = [line.split()[:2] for line in table.stdout.splitlines() if line.endswith("WORSE")]
    cells = "[...document.querySelectorAll('tbody tr')].map(r => [...r.children].map(c => c.textContent))"
    for width, height, shape in ((1400, 1000, "desk"), (390, 844, "phone")):
        b.size(width, height, phone=shape == "phone")
        b.media("light")
        b.open(page.as_uri())
        said = b.run("document.querySelector('.say').textContent")
        rows = b.run(cells)
        check(f"compare, {shape}: one sentence counts the rows", said.startswith(f"Of {len(rows)} rows, 0 better after, 1 worse, "), said)
        bad = [r for r in rows if "worse" in r[-1]]
        # Up to 40 rows are drawn each by itself, else the backends of each record.
        backends = b.run("[...document.querySelectorAll('section table')].map(t => new Set([...t.querySelectorAll('tbody td:nth-child(2)')].map(c => c.textContent)).size)")
        drawn = len(rows) if len(rows) <= 40 else sum(backends)
        check(f"compare, {shape}: the row that bench compare finds", len(worse) == 1 and [r[:2] for r in bad] == worse, (bad, worse))
        check(f"compare, {shape}: its ratio", bad and 0.3 < float(bad[0][5]) < 0.36, bad)
        check(f"compare, {shape}: figures with their units", not [c for r in rows for c in r[3:5] if "e-" in c], rows[:3])
        check(f"compare, {shape}: what differs is at the top", "0.0.1-test" in b.run("document.querySelector('#differs').textContent")
              and b.run("document.querySelector('#differs').getBoundingClientRect().top < document.querySelector('.forest').parentElement.querySelector(`.forest.${'" + shape + "'}`).getBoundingClientRect().top"))
        check(f"compare, {shape}: what is left out is told", "mbuf: only before" in b.run("document.querySelector('#left').textContent"))
        check(f"compare, {shape}: one picture", b.run(SHOWN) == shape, b.run(SHOWN))
        check(f"compare, {shape}: a row for each", b.run(f"document.querySelectorAll('.forest.{shape} .name').length") == drawn, drawn)
        check(f"compare, {shape}: a heading for each record", b.run(f"document.querySelectorAll('.forest.{shape} .head').length") == 2)
        check(f"compare, {shape}: no text on another", b.run(LIES_ON) == [], b.run(LIES_ON))
        check(f"compare, {shape}: fits", wide_as(b, width), b.run("document.documentElement.scrollWidth"))
        b.picture(f"compare-{shape}")
        b.media("dark")
        b.picture(f"compare-{shape}-dark")
    b.run("window.dispatchEvent(new Event('beforeprint'))")
    b.media("dark", "print")
    b.size(680, 960)
    paper = b.run("[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.querySelector('td')).color]")
    check("compare, print: dark on white", paper[0] in ("rgb(255, 255, 255)", "rgba(0, 0, 0, 0)") and paper[1].startswith("rgb(") and max(map(int, paper[1][4:-1].split(","))) < 80, paper)
    check("compare, print: fits", wide_as(b, 680), b.run("document.documentElement.scrollWidth"))
    b.picture("compare-print")
    b.run("window.dispatchEvent(new Event('afterprint'))")
    b.media("light")
    b.size(1280, 900)
    check("compare: nothing on the console", not b.complaints(), b.complaints())
    check("compare: nothing over the network", not b.asked_for(), b.asked_for())


def main():
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        records = work / "records"
        records.mkdir()
        # Real ones: short ones of our own, of numbers, of pairs of numbers, of curves, and an old one of names.
        for words in (["fifo", "64x100", "128x100", "64x1000", "128x1000"], ["bw-pipe", "2048", "8192", "65536"], ["mbuf", "pair", "burst"]):
            made = subprocess.run([byway, "bench", words[0], "--quick", "--runs", "2", "--json", records / f"{words[0]}.json", *words[1:]],
                                  capture_output=True, text=True)
            check(f"bench {words[0]}", made.returncode == 0, made.stderr)
        page, svg = work / "report.html", work / "svg"
        made = subprocess.run([byway, "report", records, root / "crates/lab/tests/data/old-record.json", "-o", page, "--svg", svg],
                              capture_output=True, text=True)
        check("report", made.returncode == 0 and "4 records" in made.stdout, made.stdout + made.stderr)
        check("nothing half written stays", not list(work.glob("*.new")))
        b = Browser(work / "profile")
        look(b, page.as_uri())
        files = sorted(svg.glob("*.svg"))
        check("an SVG file of each plot", len(files) >= 5, len(files))
        for f in files:
            b.open(f.as_uri())
            check(f"{f.name} is drawn", b.run("document.documentElement.tagName === 'svg' && document.querySelectorAll('circle, polygon, polyline').length > 0"))
            if pictures and f.name == "demo-ratio-kernel.svg":
                b.picture("svg")
        changed(b, records, work)
        b.end()
        for words, says in ((["report", work / "none"], "none"), (["report", svg], "bench seeds --out"), (["report", root / "README.md"], "--json FILE"),
                            (["report", records, "-o", "/nonexistent/x"], "give -o"), (["report"], "DIR|FILE"),
                            (["report", "--compare", records], "before, after"), (["report", "--compare", records / "fifo.json", records / "mbuf.json"], "only before")):
            r = subprocess.run([byway, *words], capture_output=True, text=True)
            check(f"{words}", r.returncode == 2 and says in r.stderr, (r.returncode, r.stderr))
    print(f"report: {passed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
