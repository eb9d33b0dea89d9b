"""The documentation site: stage the pages, build them, check what was built.

    python scripts/docs_site.py            writes build/site, with llms.txt, llms-full.txt and the
    Markdown
    python scripts/docs_site.py --check    checks the site that is there, and builds nothing

The pages are those of `docs` and those of the repository that `mkdocs.yml` names. A link to any
other file of the repository leads to a copy of that file. The build is strict. Afterwards every
link and anchor of the finished HTML is followed, and nothing on it may load from another host.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import groupby
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 300
FENCE = re.compile(r"(^ *```.*?^ *```\n?)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
COMMENT = re.compile(r"^ *<!--.*?--> *$", re.MULTILINE)
#: What groups links in docs/index.md: `### Files`, `- **Files**: …`, or `Files:` alone; `## …` ends
#: a group.
LEAD = re.compile(r"^## |^### (.+)|^- \*\*(.+?)\*\*:|^(\w[^\[\]:]*):$")
TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
#: Search from disk needs a stand-in for workers: the generator takes it from another host, we from
#: our files.
REMOTE_WORKER = "https://unpkg.com/iframe-worker/shim"
WORKER = "assets/javascripts/file_worker.js"
REMOTE = re.compile(r"^(https?:)?//")
#: Elements and attributes that make a browser load something.
LOADS = {"src", "srcset", "poster", "data"}
STYLE_LOADS = re.compile(r"(?:@import\s*|url\()\s*['\"]?((?:https?:)?//[^'\")\s]+)")
#: Markdown that was left as text: a list or a table without an empty line before it.
LEFT_OVER = re.compile(r"^(?:[-*] |\d+\. |\|.*\|$)", re.MULTILINE)


class SiteError(Exception):
    """Raised when the pages or the site are broken."""


@dataclass
class Page:
    """A page: its file in the repository, its place on the site, and its Markdown with links of the
    site.
    """

    file: Path
    place: str
    section: str
    group: str = ""
    title: str = ""
    text: str = ""

    @property
    def summary(self) -> str:
        """The first sentence of the first paragraph, as plain text."""
        for part in FENCE.sub("", self.text).split("\n\n"):
            text_block = " ".join(part.split())
            if (
                text_block
                and not re.match(r"[#>|!<\-*\d]", text_block)
                and not part.startswith("    ")
            ):
                plain = LINK.sub("]", text_block).replace("[", "").replace("]", "")
                return re.split(r"(?<=[.:;?!]) (?=[A-Z`*])", plain)[0].rstrip(":;")
        return ""


@dataclass
class Site:
    """The pages by section, and the other files of the repository that they link to."""

    root: Path
    pages: list[Page] = field(default_factory=list)
    files: dict[Path, str] = field(default_factory=dict)

    @property
    def docs(self) -> Path:
        """The folder with the pages."""
        return self.root / "docs"

    def read(self) -> None:
        """Find every page, give it its section, and turn its links into links of the site."""
        present = sorted(self.docs.rglob("*.md"))
        listed = [
            entry for _, entries in self._sections() for entry in entries if entry.endswith(".md")
        ]
        for section, entries in self._sections():
            for entry in entries:
                for file in self._expand(entry, present, listed):
                    place = (
                        file.relative_to(self.docs)
                        if self.docs in file.parents
                        else self._outside(file)
                    )
                    self.pages.append(Page(file, str(place), section, self._group(entry, file)))
        if lost := sorted(set(present) - {page.file for page in self.pages}):
            raise SiteError(
                "\n".join(f"{self._name(page)} is in no section of mkdocs.yml" for page in lost)
            )
        places = {page.file: page.place for page in self.pages}
        for page in self.pages:
            text = page.file.read_text(encoding="utf-8")
            page.title = read_title(page.file)
            parts = FENCE.split(text)
            for number in range(0, len(parts), 2):  # between them is code
                parts[number] = COMMENT.sub("", self._turn_links(parts[number], page, places))
            page.text = re.sub(r"\n{3,}", "\n\n", "".join(parts))

    def _sections(self) -> list[tuple[str, list[str]]]:
        nav = YAML(typ="safe").load(split_config(self.root)[1])
        sections = [next(iter(section.items())) for section in nav]
        return [
            (title, [entries] if isinstance(entries, str) else entries)
            for title, entries in sections
        ]

    def _expand(self, entry: str, present: Sequence[Path], listed: Sequence[str]) -> list[Path]:
        if entry.endswith("/"):
            results = [file for file in present if file.is_relative_to(self.docs / entry)]
        elif entry == "*.md":
            results = [
                file for file in present if file.parent == self.docs and file.name not in listed
            ]
        else:
            results = [file for file in [(self.docs / entry).resolve()] if file.exists()]
        if not results:
            raise SiteError(f"mkdocs.yml: nav: there is no page for {entry!r}")
        order = [target for _, target in self._index()]
        return sorted(
            results,
            key=lambda file: (
                file.name != "README.md",
                order.index(file) if file in order else 999,
                file,
            ),
        )

    def _group(self, entry: str, file: Path) -> str:
        """Return the group of a page in its section: of a folder with a README, or as the index
        groups it.
        """
        above = self.docs / entry / "README.md"
        if entry.endswith("/") and above.exists():
            return read_title(above)
        return next((group for group, target in self._index() if target == file), "")

    def _index(self) -> list[tuple[str, Path]]:
        """Return what docs/index.md links to, with the group in which it stands."""
        results = []
        group = ""
        for line in (self.docs / "index.md").read_text(encoding="utf-8").splitlines():
            if lead := LEAD.match(line):
                group = "".join(filter(None, lead.groups()))
            links = [link[1].partition("#")[0] for link in LINK.findall(line)]
            results += [(group, (self.docs / link).resolve()) for link in links]
        return results

    def _name(self, file: Path) -> str:
        return file.relative_to(self.root).as_posix()

    def _outside(self, file: Path) -> Path:
        name = file.relative_to(self.root)
        return Path("project", *[part.lower() for part in (name.parent / f"{name.stem}.md").parts])

    def _turn_links(self, text: str, page: Page, places: dict[Path, str]) -> str:
        def turn(link: re.Match[str]) -> str:
            target, mark, anchor = link[2].partition("#")
            if not target or REMOTE.match(target) or ":" in target:
                return link[0]
            file = (page.file.parent / unquote(target)).resolve()
            if file.is_dir() and file.parent == self.root / "examples":
                file, mark, anchor = self.root / "examples" / "README.md", "", ""
            if file == self.root / "README.md":
                file = self.docs / "index.md"
            if not file.is_file():
                raise SiteError(f"{self._name(page.file)}: dead link {link[2]}")
            if file in places:
                place = places[file]
            elif file.is_relative_to(self.docs):
                place = file.relative_to(self.docs).as_posix()
            else:
                # A browser shows text and downloads YAML.
                suffix = "" if file.suffix in {".txt", ".ipynb", ".svg", ".png"} else ".txt"
                place = self.files.setdefault(file, f"files/{self._name(file)}{suffix}")
                mark, anchor = "", ""
            return (
                link[1] + os.path.relpath(place, Path(page.place).parent) + mark + anchor + link[3]
            )

        return LINK.sub(turn, text)

    def navigation(self) -> list[dict[str, object]]:
        """Return the `nav` of the generator."""
        made: list[dict[str, object]] = []
        for section, pages in groupby(self.pages, key=lambda page: page.section):
            entries: list[object] = []
            for group, some in groupby(pages, key=lambda page: page.group):
                links = [page.place for page in some]
                entries += [{group: links}] if group else links
            made.append({section: entries[0] if len(entries) == 1 else entries})
        return made

    def stage(self, folder: Path) -> None:
        """Write the pages, pictures and linked files that the generator builds from."""
        shutil.rmtree(folder, ignore_errors=True)
        for file in self.docs.rglob("*"):
            if file.is_file() and file.suffix not in {".md", ".json"}:
                self.copy(file, folder / file.relative_to(self.docs))
        for file, place in self.files.items():
            self.copy(file, folder / place)
        for page in self.pages:
            path = folder / page.place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(page.text, encoding="utf-8")

    @staticmethod
    def copy(file: Path, place: Path) -> None:
        """Copy a file into a folder, which is created if necessary."""
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)

    def write_for_assistants(self, folder: Path) -> None:
        """Write `llms.txt` (the list of pages), `llms-full.txt` (all of them) and each page as
        Markdown.
        """
        name, description = re.findall(
            r"^site_(?:name|description): (.+)$", split_config(self.root)[0], re.MULTILINE
        )
        whole = [f"# {name}\n\n> {description}"]
        listed = [*whole, "All pages in one file: [llms-full.txt](llms-full.txt)"]
        for section, pages in groupby(self.pages, key=lambda page: page.section):
            lines = []
            for page in pages:
                lines.append(
                    f"- [{page.title}]({page.place})" + (page.summary and f": {page.summary}")
                )
                whole.append(f"<!-- {page.place} -->\n\n{page.text.strip()}")
                path = folder / page.place
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(page.text, encoding="utf-8")
            listed.append(f"## {section}\n\n" + "\n".join(lines))
        (folder / "llms.txt").write_text("\n\n".join(listed) + "\n", encoding="utf-8")
        (folder / "llms-full.txt").write_text("\n\n".join(whole) + "\n", encoding="utf-8")


def read_title(file: Path) -> str:
    """Return the title of a page, as plain text."""
    result = TITLE.search(FENCE.sub("", file.read_text(encoding="utf-8")))
    if result is None:
        raise SiteError(f"{file.name} has no title (`# …`)")
    return result[1].replace("`", "").strip()


def split_config(root: Path) -> tuple[str, str]:
    """Return the part of mkdocs.yml before `nav`, and the list under `nav`."""
    settings, result, nav = (root / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")
    if not result:
        raise SiteError("mkdocs.yml has no `nav`, which is its last setting")
    return settings, nav


def build(root: Path, out: Path) -> Site:
    """Build the site of a repository into a folder, strictly.

    SiteError says what is wrong with the pages.
    """
    site = Site(root.resolve())
    site.read()
    staged = out.with_name(f"{out.name}-pages")
    site.stage(staged / "pages")
    settings, _ = split_config(root)
    filled = {"docs_dir": "pages", "site_dir": "site", "nav": site.navigation()}
    lines = [settings, *(f"{name}: {json.dumps(value)}" for name, value in filled.items())]
    (staged / "mkdocs.yml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = subprocess.run(  # noqa: S603 - the generator of requirements/docs.lock
        [
            sys.executable,
            "-m",
            "zensical",
            "build",
            "--strict",
            "--clean",
            "-f",
            str(staged / "mkdocs.yml"),
        ],
        cwd=staged,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode:
        output = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
        raise SiteError(output.partition("Traceback (most recent call last)")[0].strip())
    shutil.rmtree(out, ignore_errors=True)
    (staged / "site").rename(out)
    shutil.copyfile(Path(__file__).with_name(Path(WORKER).name), out / WORKER)
    for file in out.rglob("*.html"):
        worker = os.path.relpath(out / WORKER, file.parent)
        file.write_text(
            file.read_text(encoding="utf-8").replace(REMOTE_WORKER, worker), encoding="utf-8"
        )
    site.write_for_assistants(out)
    return site


class _Reader(HTMLParser):
    """What a page of the site links to, loads and can be linked by."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.texts: list[str] = []
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note ids, links, and what is loaded."""
        attributes = {name: value or "" for name, value in attrs}
        self.ids |= {attributes[name] for name in ("id", "name") if attributes.get(name)}
        self.loaded += [attributes[name] for name in LOADS & attributes.keys() if attributes[name]]
        if tag == "link" and attributes.get("rel") not in {"canonical", "next", "prev"}:
            self.loaded.append(attributes.get("href", ""))
        elif tag in {"a", "area"} and "href" in attributes:
            self.links.append(attributes["href"])
        if tag in {"p", "pre"}:
            self._inside.append(tag)
            self.texts.append("")

    def handle_endtag(self, tag: str) -> None:
        """End a paragraph."""
        if self._inside and self._inside[-1] == tag:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        """Keep the text of paragraphs."""
        if self._inside[-1:] == ["p"]:
            self.texts[-1] += data


def check(site: Path) -> Iterator[str]:
    """Yield dead links and anchors, what loads from another host, and Markdown that was left as
    text.
    """
    site = site.resolve()
    pages: dict[Path, _Reader] = {}
    for file in sorted(site.rglob("*.html")):
        pages[file] = _Reader()
        pages[file].feed(file.read_text(encoding="utf-8"))
    for file, page in pages.items():
        name = file.relative_to(site).as_posix()
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if REMOTE.match(link) or parts.scheme in {"mailto", "data"}:
                continue
            above = site if parts.path.startswith("/") else file.parent
            target = (above / unquote(parts.path).lstrip("/")).resolve() if parts.path else file
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                yield f"{name}: dead link {link}"
            elif (
                parts.fragment
                and target in pages
                and unquote(parts.fragment) not in pages[target].ids
            ):
                yield f"{name}: dead anchor {link}"
        yield from (
            f"{name}: loads {address} from another host"
            for address in page.loaded
            if REMOTE.match(address)
        )
        left = [text[:60] for text in page.texts if LEFT_OVER.search(text)]
        yield from (f"{name}: Markdown left as text: {line!r}" for line in left)
    for style in sorted(site.rglob("*.css")):
        for result in STYLE_LOADS.findall(style.read_text(encoding="utf-8")):
            yield f"{style.relative_to(site).as_posix()}: loads {result} from another host"


def main() -> int:
    """Build and check the site; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--out", type=Path, default=ROOT / "build" / "site", help="folder of the site"
    )
    parser.add_argument("--check", action="store_true", help="build nothing")
    options = parser.parse_args()
    try:
        pages = [] if options.check else build(ROOT, options.out.resolve()).pages
    except SiteError as error:
        print(error, file=sys.stderr)
        return 1
    problems = list(check(options.out))
    print("\n".join(problems), file=sys.stderr, end="\n" if problems else "")
    words = sum(len(page.text.split()) for page in pages)
    if not problems:
        size = f"{len(pages)} pages, {words:,} words"
        print(f"site: {size}, every link leads somewhere; in {options.out}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
