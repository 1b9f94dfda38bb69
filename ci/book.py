#!/usr/bin/env python3
"""The documents as a book with a search, in target/book/html.      usage: book.py BYWAY MDBOOK

Its chapters are what is in docs/, the manual pages as groff lays them out, and the records of runs/ with their report.
Invariant: each document of docs/ is a chapter, and each link of the pages leads to a file of the book; else it fails.
Not here: the links of the documents themselves (ci/links.py), the report (`byway report`)."""
import html.parser, os, pathlib, re, shutil, subprocess, sys, urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "ci"))
import links  # noqa: E402

# The parts, and the documents that come first in each; those of docs/ that stand nowhere come last.
PARTS = {
    "Use": ["docs/commands.md", "docs/operations.md", "docs/compatibility.md", "docs/threats.md", "docs/stats.md"],
    "How it works": ["docs/tour.md", "docs/pipe.md", "docs/sockets.md", "docs/readiness.md", "docs/fifo.md"],
    "The library": ["docs/native.md"],
    "Measured": ["docs/figures.md", "docs/lab-method.md", "docs/record.md"],
}
REPORT = "runs/report.html"


def title(file):
    """The first heading, without its marks."""
    found = links.HEADING.search(file.read_text())
    return found.group(2).replace("`", "") if found else file.stem


def run(*words):
    try:
        done = subprocess.run(words, capture_output=True, text=True)
    except FileNotFoundError:
        sys.exit(f"book: {words[0]} is missing; type: make deps")
    if done.returncode:
        sys.exit(f"book: {' '.join(map(str, words))}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


class Book:
    """The sources of the book, below `src`, and its list of chapters."""

    def __init__(self, src):
        self.src, self.lines = src, ["# Summary\n"]

    def chapter(self, path, depth=0):
        """A document under its own path, its links to folders made links to the pages of these."""
        to = self.src / path
        to.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / path).is_file():
            to.write_text(re.sub(r"\]\(([^)#]+)", lambda m: f"]({self.page(self.folder(path, m.group(1)))}", (ROOT / path).read_text()))
        self.lines.append(f"{'  ' * depth}- [{title(to)}]({self.page(path)})\n")
        if path != self.page(path):
            to.rename(self.src / self.page(path))

    def folder(self, path, target):
        """Where a link to a folder leads: to its README."""
        return f"{target.rstrip('/')}/README.md" if ((ROOT / path).parent / target).is_dir() else target

    def page(self, path):
        """A folder's README is the page that a link to the folder leads to; that of all is the first page."""
        return re.sub(r"(^|/)README\.md$", r"\1index.md", path)

    def part(self, name):
        self.lines.append(f"\n# {name}\n\n")

    def made(self, path, text, depth=0):
        """A page that no document has."""
        to = self.src / path
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(text)
        self.chapter(path, depth)


def below(folder, pattern="*.md"):
    """Documents of a folder, README first."""
    files = [str(f.relative_to(ROOT)) for f in (ROOT / folder).glob(pattern)]
    return sorted(files, key=lambda f: (not f.endswith("README.md"), f))


def manual(book, byway, work):
    """The manual pages: of the program, which prints its own, and of the library."""
    pages = work / "man"
    pages.mkdir()
    run(byway, "manual", pages)
    for heading, name, files in (("Of the program", "program", pages.glob("*.1")), ("Of the library", "library", (ROOT / "docs/man").glob("*.3"))):
        book.made(f"man/{name}.md", f"# {heading}\n\nThe manual pages, as `man` shows them.\n")
        for f in sorted(files):
            text = run("groff", "-man", "-Tutf8", "-rLL=100n", "-P-cbou", f)
            section = f.suffix[1:]
            book.made(f"man/{f.name}.md", f"# {f.stem}({section})\n\n```text\n{text.strip()}\n```\n", depth=1)


def runs(book, byway):
    """The records' pages, and the report of all records."""
    (book.src / "runs").mkdir(exist_ok=True)
    run(byway, "report", ROOT / "runs", "-o", book.src / REPORT)
    of_all = f"# The records\n\n[The report of all records]({pathlib.Path(REPORT).name}) is a page of its own. Each record has a page here.\n"
    book.made("runs/index.md", of_all)
    for readme in below("runs", "*/README.md"):
        book.chapter(readme, depth=1)


def chapters(book, byway, work):
    book.chapter("README.md")
    listed = {f for files in PARTS.values() for f in files}
    for name, files in PARTS.items():
        book.part(name)
        for f in files:
            book.chapter(f)
        if name == "Use":
            book.made("docs/help/index.md", "# Topics of byway help\n\nWhat `byway help TOPIC` prints.\n")
            for f in below("docs/help"):
                book.chapter(f, depth=1)
        if name == "Measured":
            runs(book, byway)
    rest = [f for f in below("docs") if f not in listed]
    if rest:
        book.part("More")
        for f in rest:
            book.chapter(f)
    book.part("Manual pages")
    manual(book, byway, work)
    book.part("Decisions")
    for i, f in enumerate(below("docs/adr")):
        book.chapter(f, depth=min(i, 1))
    book.part("Work on it")
    for f in ["CONTRIBUTING.md", "CHANGELOG.md", *below("tests"), *below("tests", "*/README.md")]:
        book.chapter(f)


class Page(html.parser.HTMLParser):
    """What a page links to, and what its own anchors are."""

    def __init__(self, file):
        super().__init__()
        self.to, self.anchors = [], set()
        self.feed(file.read_text())

    def handle_starttag(self, tag, attributes):
        a = dict(attributes)
        self.anchors.add(a.get("id"))
        self.to += [v for v in (a.get("href"), a.get("src")) if v]


def dead(book):
    """Links of the made pages that lead nowhere."""
    pages = {f: Page(f) for f in book.rglob("*.html") if f.name not in ("404.html", "print.html", "toc.html")}
    for f, page in pages.items():
        if f == book / REPORT:
            continue
        for link in page.to:
            to = urllib.parse.urlsplit(link)
            if to.scheme or to.netloc:
                continue
            file = (f.parent / urllib.parse.unquote(to.path)).resolve() if to.path else f
            if not file.is_file():
                yield f"{f.relative_to(book)}: {link} leads to no file of the book"
            elif to.fragment and file in pages and to.fragment not in pages[file].anchors:
                yield f"{f.relative_to(book)}: {link} leads to no heading"


def main():
    if len(sys.argv) != 3:
        print("book: usage: book.py BYWAY MDBOOK; make docs gives both", file=sys.stderr)
        sys.exit(2)
    byway, mdbook = map(os.path.abspath, sys.argv[1:])
    work = ROOT / "target/book"
    shutil.rmtree(work, ignore_errors=True)
    book = Book(work / "src")
    book.src.mkdir(parents=True)
    shutil.copy(ROOT / "docs/book.toml", work / "book.toml")
    chapters(book, byway, work)
    (book.src / "SUMMARY.md").write_text("".join(book.lines))
    run(mdbook, "build", work)
    bad = sorted(dead(work / "html"))
    if bad:
        sys.exit("book: " + "\nbook: ".join(bad))
    print(f"{work / 'html/index.html'}: {sum(line.lstrip().startswith('- ') for line in book.lines)} chapters")


main()
