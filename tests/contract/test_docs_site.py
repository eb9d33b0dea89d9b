"""The documentation site: every page has its place, every link leads somewhere, no other host is
needed.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from .scripts import ROOT, load_script

#: A small repository with pages of every kind.
SMALL = Path(__file__).parent / "small_site"
CONFIG = (SMALL / "mkdocs.yml").read_text(encoding="utf-8")
SCRIPT = load_script("scripts/docs_site.py")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Return a copy of the small repository."""
    return Path(shutil.copytree(SMALL, tmp_path / "small"))


def read_site(root: Path) -> Any:  # noqa: ANN401  # of the script
    """Return the pages of a repository."""
    site = SCRIPT.Site(root.resolve())
    site.read()
    return site


def test_every_page_of_the_project_is_in_the_navigation() -> None:
    """Home, the four kinds of documentation and the project, in this order.

    No page is left out or twice.
    """
    site = read_site(ROOT)
    titles = [title for section in site.navigation() for title in section]
    assert titles == ["Home", "Tutorial", "How-to guides", "Reference", "Explanation", "Project"]
    files = [page.file for page in site.pages]
    assert len(files) == len(set(files))
    assert set((ROOT / "docs").rglob("*.md")) <= set(files)


def test_folders_become_pages_in_the_order_and_groups_of_the_index(small: Path) -> None:
    """What the index does not list comes last; a folder with a README is a group of its own."""
    decisions = ["decisions/README.md", "decisions/0001.md"]
    project = ["testing.md", "project/security.md", {"Decisions": decisions}]
    assert read_site(small).navigation() == [
        {"Home": "index.md"},
        {"How-to guides": [{"First steps": ["guide/one.md"]}, "project/examples/readme.md"]},
        {"Reference": [{"Files": ["reference/b.md"]}, {"Models": ["reference/a.md"]}]},
        {"Project": project},
    ]


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("docs/other/lost.md", "# Lost\n", "other/lost.md is in no section of mkdocs.yml"),
        ("docs/guide/two.md", "# Two\n\n[gone](three.md)\n", "guide/two.md: dead link three.md"),
        ("docs/guide/two.md", "# Two\n\n[all](../../docs)\n", "two.md: dead link ../../docs"),
        ("docs/guide/two.md", "No title\n", r"two.md has no title"),
        ("mkdocs.yml", CONFIG + "  - More: more.md\n", "there is no page for 'more.md'"),
    ],
)
def test_a_page_that_is_lost_ends_the_build(small: Path, name: str, text: str, error: str) -> None:
    """A page without a section, an entry without a page, a dead link, a page without a title."""
    (small / name).parent.mkdir(exist_ok=True)
    (small / name).write_text(text, encoding="utf-8")
    with pytest.raises(SCRIPT.SiteError, match=error):
        read_site(small)


def test_links_to_files_of_the_repository_work_on_the_site(small: Path, tmp_path: Path) -> None:
    """To a page: its place.

    To a file: a copy; to an example: the examples; to the README: the first page.
    """
    site = read_site(small)
    (page,) = [page for page in site.pages if page.place == "guide/one.md"]
    assert page.text == (
        "# One\n\n[B](../reference/b.md), [task](../files/examples/seed/task.yaml.txt), "
        "[seed](../project/examples/readme.md), [home](../index.md)\n\n"
        "```md\n[no](../../README.md)\n```\n"
    )
    site.stage(tmp_path / "staged")
    assert (tmp_path / "staged/files/examples/seed/task.yaml.txt").read_text() == "key: seed\n"
    assert "[S](../project/security.md#keys)" in (tmp_path / "staged/reference/a.md").read_text()


def test_assistants_get_a_list_and_one_file_with_every_page(small: Path, tmp_path: Path) -> None:
    """`llms.txt` has each page with its first sentence.

    `llms-full.txt` and the folder have the Markdown.
    """
    out = tmp_path / "site"
    site = read_site(small)
    site.write_for_assistants(out)
    listed = (out / "llms.txt").read_text(encoding="utf-8")
    assert listed.startswith("# small\n\n> A small site.\n")
    assert "## Reference\n\n- [The scorer b](reference/b.md): B is a scorer.\n" in listed
    assert "- [A](reference/a.md): All about models.\n" in listed
    whole = (out / "llms-full.txt").read_text(encoding="utf-8")
    assert all(page.text.strip() in whole and f"]({page.place})" in listed for page in site.pages)
    assert all((out / page.place).read_text(encoding="utf-8") == page.text for page in site.pages)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('<a href="gone.html">x</a>', "dead link gone.html"),
        ('<a href="b.html#gone">x</a>', "dead anchor b.html#gone"),
        ('<a href="#gone">x</a>', "dead anchor #gone"),
        ('<img src="img/gone.png">', "dead link img/gone.png"),
        ('<script src="https://x.org/x"></script>', "loads https://x.org/x from another host"),
        ('<link rel="stylesheet" href="//x.org/x">', "loads //x.org/x from another host"),
        ("<p>These:\n- one\n- two</p>", "Markdown left as text: 'These:\\n- one\\n- two'"),
    ],
)
def test_the_finished_pages_are_checked(tmp_path: Path, body: str, problem: str) -> None:
    """Each link and anchor is followed.

    What loads from another host, and text that is no list, is named.
    """
    (tmp_path / "a.html").write_text(body, encoding="utf-8")
    (tmp_path / "b.html").write_text('<h2 id="there">x</h2>', encoding="utf-8")
    assert list(SCRIPT.check(tmp_path)) == [f"a.html: {problem}"]


def test_pages_that_are_in_order_pass(tmp_path: Path) -> None:
    """Links to other hosts are links: they load nothing until somebody follows them."""
    (tmp_path / "a.html").write_text(
        '<h2 id="x">x</h2><a href="#x">1</a><a href="b/">2</a><a href="https://example.org">3</a>'
        "<p>One - two.</p><pre>- in code</pre>",
        encoding="utf-8",
    )
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "index.html").write_text('<a href="../a.html#x">1</a>', encoding="utf-8")
    (tmp_path / "b" / "x.css").write_text("a { background: url(data:image/png;base64,AA) }")
    assert list(SCRIPT.check(tmp_path)) == []


def test_a_style_sheet_of_another_host_is_reported(tmp_path: Path) -> None:
    """It would be loaded with the page."""
    (tmp_path / "x.css").write_text('@import "https://x.org/a.css";', encoding="utf-8")
    problem = "x.css: loads https://x.org/a.css from another host"
    assert list(SCRIPT.check(tmp_path)) == [problem]


def test_links_in_html_are_followed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make docs` names a picture that is not there, whether Markdown or HTML shows it."""
    docs = load_script("scripts/docs.py")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)  # noqa: S607  # found on the path
    (tmp_path / "there.png").write_bytes(b"")
    (tmp_path / "README.md").write_text(
        '# A\n\n![1](gone-1.png) ![2](there.png)\n\n<picture><source srcset="gone-2.png">'
        '<img alt="3" src="there.png"></picture> <a href="#a">4</a> <a href="#b">5</a>\n'
    )
    monkeypatch.setattr(docs, "ROOT", tmp_path)
    assert list(docs.find_dead_links()) == [
        "README.md: dead link gone-1.png",
        "README.md: dead link gone-2.png",
        "README.md: README.md has no heading for #b",
    ]
