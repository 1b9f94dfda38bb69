#!/usr/bin/env python3
"""Each relative link of the documents leads to a file, and its anchor to a heading.      usage: links.py [FILE...]

Without a FILE: README, CONTRIBUTING, CHANGELOG, docs/, tests/ and runs/. It needs no network: links to other hosts are
not followed. Invariant: a way of being wrong that this looks for is found in `CONTROLS` first, else it fails.
Not here: links of the book (ci/book.py), words of the documents."""
import pathlib, re, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCUMENTS = ["*.md", "docs/**/*.md", "tests/**/*.md", "runs/*/README.md"]
FENCE = re.compile(r"^(```|~~~).*?^\1[ \t]*$", re.S | re.M)
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(\s*<?([^()\s<>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
NAMED = re.compile(r"^\s*\[[^\]]+\]:\s*<?(\S+?)>?\s*$", re.M)
HEADING = re.compile(r"^(#{1,6})[ \t]+(.+?)[ \t]*#*$", re.M)
ELSEWHERE = re.compile(r"^(https?|mailto|ftp):")


def prose(text):
    """A document without code: what stands there is no link."""
    blank = lambda m: "\n" * m.group(0).count("\n")
    return re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", FENCE.sub(blank, text), flags=re.S)


def anchors(text):
    """The anchors of a document's headings, as forges make them; the second of a name gets a number."""
    seen, found = {}, set()
    for _, title in HEADING.findall(FENCE.sub("", text)):
        title = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", title)
        name = re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")
        found.add(f"{name}-{seen[name]}" if name in seen else name)
        seen[name] = seen.get(name, 0) + 1
    return found | set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))


def links(text):
    """Where a document's links lead: target, line."""
    text = prose(text)
    for pattern in (LINK, NAMED):
        for m in pattern.finditer(text):
            yield m.group(1), text.count("\n", 0, m.start(1)) + 1


def wrong(file, root):
    """What is wrong with the links of a document."""
    for target, line in links(file.read_text()):
        if ELSEWHERE.match(target):
            continue
        at = f"{file.relative_to(root)}:{line}: {target}"
        path, _, anchor = target.partition("#")
        to = (file.parent / path).resolve() if path else file
        if path.startswith("/") or not to.is_relative_to(root):
            yield f"{at} leads out of the repository; give a path that is relative to the document"
        elif not to.exists():
            yield f"{at} leads to no file; is it renamed?"
        elif anchor and to.is_dir():
            yield f"{at} has an anchor in a folder; name the file"
        elif anchor and to.suffix == ".md" and anchor not in anchors(to.read_text()):
            yield f"{at} leads to no heading of {to.relative_to(root)}; it has: {', '.join(sorted(anchors(to.read_text())))}"


# A document and how many of its links are wrong.
CONTROLS = [
    ("[a](there.md) [b](there.md#one-two) [c](#top) [d](folder) [e](https://nowhere.invalid/x)\n# Top\n", 0),
    ("`[a](none.md)`\n```\n[b](none.md)\n```\n", 0),
    ("[a](none.md)", 1),
    ("[a\nb](there.md#three) [c](#none)\n# Top\n", 2),
    ("[a][r]\n\n[r]: none.md\n", 1),
    ("[a](/there.md) [b](../../x.md) [c](folder#x)", 3),
    ("[a](there.md#one-two-1)", 0),
    ("[a](there.md#one-two-2)", 1),
    ("[the `code` of it](none.md)", 1),
]


def control():
    """Fails if a wrong link is not found, or a right one is."""
    with tempfile.TemporaryDirectory() as work:
        root = pathlib.Path(work).resolve()
        (root / "folder").mkdir()
        (root / "there.md").write_text("# One, `two`\n```\n# three\n```\n## One two\n")
        for text, expected in CONTROLS:
            (root / "document.md").write_text(text)
            found = list(wrong(root / "document.md", root))
            if len(found) != expected:
                sys.exit(f"links: control {text!r}: {len(found)} wrong links, not {expected}: {found}")


def main():
    control()
    named = [pathlib.Path(f).resolve() for f in sys.argv[1:]]
    files = named or sorted({f for pattern in DOCUMENTS for f in ROOT.glob(pattern)})
    bad = [w for f in files for w in wrong(f, ROOT)]
    print("\n".join(bad), end="\n" if bad else "")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
