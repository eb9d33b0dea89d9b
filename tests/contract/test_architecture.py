"""The walk through the code names what is there."""

from __future__ import annotations

import importlib
import re
import sys
import threading
import tomllib
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import settings

from answerkey.reader import read as read_choice
from answerkey.scorers import extraction

from .scripts import PACKAGE, ROOT, Call, read

TEXT = read("ARCHITECTURE.md")
STEPS = re.findall(r"^\d+\. \*\*`([a-z_/]+\.py)`\*\*, `([A-Za-z_.]+)`", TEXT, re.MULTILINE)
NAMED = re.findall(
    r"`([a-z_]+/[a-z_]+\.py)`(?:\*\*)?, `([A-Za-z_.]+)`", TEXT + read("CONTRIBUTING.md")
)
#: The sources by their paths below the package.
SOURCES = {
    path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8")
    for path in PACKAGE.rglob("*.py")
}


def list_writes(text: str) -> list[str]:
    """Return the lines of a module that change the environment of this process."""
    methods = r"environb?\.(update|pop|popitem|setdefault|clear|__[a-z]+__)\("
    operators = r"environb?(\[[^]]+\])? *[|+]?=(?!=)|del (os\.)?environ|= *os\.environb?$"
    pattern = re.compile(rf"{operators}|{methods}|\b(un)?(set|put)env\(")
    return [line.strip() for line in text.splitlines() if pattern.search(line)]


def test_the_environment_is_changed_only_before_there_are_threads() -> None:
    """Polars reads it in its own threads, outside Python's lock: a change meanwhile ends the
    process.

    A command and a worker process begin with it. Ray takes its settings from nowhere else: they are
    set once, when its engine is chosen and no rows have been read, and are never put back.
    """
    writes = {name: list_writes(text) for name, text in SOURCES.items()}
    polars = 'os.environ.setdefault("POLARS_MAX_THREADS", "1")'
    assert {name: lines for name, lines in writes.items() if lines} == {
        "cli/__init__.py": ['os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")'],
        "engines/local.py": [polars],
        "engines/ray_engine.py": ["os.environ.update(settings)", polars],
    }


def test_syntax_trees_are_built_in_one_place() -> None:
    """Which lets one thread at a time: in two, Python up to 3.11.7 raises SystemError."""
    pattern = re.compile(r"\bast\.parse\(|\bliteral_eval\((?!(parse_syntax|tree|key|value)\b)")
    assert [name for name, text in SOURCES.items() if pattern.search(text)] == ["text.py"]


def test_no_pattern_repeats_a_group_possessively() -> None:
    """Python before 3.11.5 loses its place when such a group fails half-way: `(?:,d+)*+`."""
    pattern = re.compile(r"\)(?:[*?]|\{[\d,]+\})\+[^+ ]|\)\+\+")
    assert [name for name, text in SOURCES.items() if pattern.search(text)] == []


def test_every_file_and_name_of_the_walk_exists() -> None:
    """What the walk, and the list of where to change what, name is defined in the file that they
    name.
    """
    assert len(NAMED) >= 25
    missing = []
    for file, name in NAMED:
        for part in name.split("."):
            definition = rf"^ *(?:async )?(?:def|class) {part}\b|^{part}\b.* = "
            if not re.search(definition, SOURCES.get(file, ""), re.MULTILINE):
                missing.append(f"{file}: {name}")
    assert missing == []


def test_a_sample_goes_the_way_of_the_walk(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`answerkey score` calls the functions of the walk, one after the other, in at most ten
    steps.
    """
    # Another test may have read the same reply.
    monkeypatch.setattr(extraction, "_recall_reading", read_choice)
    calls: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and "answerkey" in frame.f_code.co_filename:
            calls.append((frame.f_code.co_filename, frame.f_code.co_qualname))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        done = call("score", ROOT / "examples" / "recorded", "--out", tmp_path / "run")
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert done.code == 0, done.err
    steps = [(str(PACKAGE / file), name) for file, name in STEPS]
    assert 8 <= len(steps) <= 10
    assert [step for step in steps if step not in calls] == []
    firsts = [calls.index(step) for step in steps]
    assert firsts == sorted(firsts)


def test_every_package_is_described() -> None:
    """The table has a line for each folder and module of the package."""
    there = {name.partition("/")[0].removesuffix(".py") for name in SOURCES}
    described = set(re.findall(r"^\| `([a-z_]+)` \|", TEXT, re.MULTILINE))
    assert {name for name in there if not name.startswith("_")} == described


def test_every_reference_page_is_linked_from_the_index() -> None:
    """A page that nobody can find is not documentation."""
    index = read("docs/index.md")
    pages = [path.name for path in (ROOT / "docs" / "reference").glob("*.md")]
    assert pages
    assert [name for name in pages if f"reference/{name}" not in index] == []


def test_every_core_type_lives_where_the_table_says() -> None:
    """The package that the table names has the type among its names."""
    rows = re.findall(r"^\| (`[A-Z][^|]+) \| (\w+) \|", TEXT, re.MULTILINE)
    missing = []
    for names, package in rows:
        module = importlib.import_module(f"answerkey.{package}")
        missing += [name for name in re.findall(r"`(\w+)`", names) if not hasattr(module, name)]
    assert len(rows) >= 8
    assert missing == []


def test_the_order_of_packages_is_the_one_that_is_checked() -> None:
    """`make imports` holds the code against the same layers as the table of packages."""
    rows = re.findall(r"^\| `(\w+)` \|.*\| (\d+) \|$", TEXT, re.MULTILINE)
    listed = {package: int(layer) for package, layer in rows}
    contracts = tomllib.loads(read("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if "layers" in contract]
    checked = {
        package: number
        for number, layer in enumerate(layers, 1)
        for package in re.split(r" [|:] ", layer)
    }
    assert listed == checked


def test_every_library_is_imported_where_the_decision_says() -> None:
    """The table of dependencies names the packages that import each library, at the top or in a
    function.
    """
    page = read("docs/decisions/0002-dependencies.md")
    rows = re.findall(r"^\| (\S+) \| [^|]+ \| (`[^|]+`) \|$", page, re.MULTILINE)
    assert len(rows) >= 8
    for library, packages in rows:
        name = library.partition(".")[0]
        imported = re.compile(rf"^ *(?:import|from) {name}\b", re.MULTILINE)
        places = {path.partition("/")[0] for path, text in SOURCES.items() if imported.search(text)}
        assert (library, places) == (library, set(re.findall(r"`(\w+)`", packages)))


def test_nothing_is_left_unfinished() -> None:
    """No marker of unfinished work stands in the code."""
    words = re.compile("TO" + "DO|FIX" + "ME|XX" + "X|NotImplemented" + "Error")
    assert [name for name, text in SOURCES.items() if words.search(text)] == []


def test_no_law_of_hypothesis_depends_on_the_clock() -> None:
    """`tests/conftest.py` says once, for all of them, that there is no deadline."""
    assert settings().deadline is None
    word = "deadline" + "="
    paths = (ROOT / "tests").rglob("*.py")
    assert [path.name for path in paths if word in path.read_text("utf-8")] == ["conftest.py"]


def test_every_folder_of_tests_is_described() -> None:
    """The tree at the end has a line for each."""
    paths = [path for path in (ROOT / "tests").iterdir() if path.is_dir()]
    folders = {path.name for path in paths if path.name[0] not in "._"}
    assert folders == set(re.findall(r"^[├└]── (\w+)/", TEXT, re.MULTILINE))
