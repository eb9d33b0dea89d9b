"""The walk through the code names what is there."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
STEPS = re.findall(r"\*\*`([a-z_/]+\.py)`\*\*,\s+`([A-Za-z_.]+)`(?: and `([A-Za-z_.]+)`)?", TEXT)


def test_every_file_and_name_of_the_walk_exists() -> None:
    """A function or class that the walk names is defined in the file that it names."""
    assert len(STEPS) >= 15
    missing = []
    for file, *names in STEPS:
        path = ROOT / "src" / "answerkey" / file
        source = path.read_text(encoding="utf-8") if path.exists() else ""
        for name in filter(None, names):
            wanted = [rf"(def|class) {part}\b" for part in name.split(".")]
            if not all(re.search(one, source) for one in wanted):
                missing.append(f"{file}: {name}")
    assert missing == []


def test_every_room_is_described() -> None:
    """The table of rooms has a line for each folder and module of the package."""
    package = ROOT / "src" / "answerkey"
    rooms = {path.stem for path in package.iterdir() if not path.name.startswith(("_", "py."))}
    described = set(re.findall(r"^\| `([a-z_]+)` \|", TEXT, re.MULTILINE))
    assert rooms <= described


def test_every_reference_page_is_linked_from_the_index() -> None:
    """A page that nobody can find is not documentation."""
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = sorted((ROOT / "docs" / "reference").glob("*.md"))
    assert pages
    assert [page.name for page in pages if f"reference/{page.name}" not in index] == []


def test_every_core_type_lives_where_the_table_says() -> None:
    """The room that the table names has the type among its names."""
    rows = re.findall(r"^\| (`[A-Z][^|]+) \| (\w+) \|", TEXT, re.MULTILINE)
    named = [(room, name) for names, room in rows for name in re.findall(r"`(\w+)`", names)]
    assert len(named) >= 10
    assert [one for one in named if not hasattr(importlib.import_module(f"answerkey.{one[0]}"), one[1])] == []


def test_the_order_of_rooms_is_the_one_that_is_checked() -> None:
    """`make imports` holds the code against the same list; layers in brackets are yet to come."""
    (listed,) = re.findall(r"^```\n(cli\n.*?)\n```", TEXT, re.MULTILINE | re.DOTALL)
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = next(one["layers"] for one in settings["tool"]["importlinter"]["contracts"] if "layers" in one)
    there = [" | ".join(one for one in re.split(" [|:] ", layer) if "(" not in one) for layer in layers]
    assert listed.splitlines() == [layer for layer in there if layer]


def test_every_folder_of_tests_is_described() -> None:
    """The tree at the end has a line for each."""
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name[0] not in "._"}
    assert folders == set(re.findall(r"^[├└]── (\w+)/", TEXT, re.MULTILINE))
