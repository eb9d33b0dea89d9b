"""Laws of the mutants: what is changed, what is not, and how they are counted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .mutants import EQUIVALENT, ROOT, list_files, list_mutants
from .mutating import compile_mutant, find_mutants
from .running import KILLED, SURVIVED, Outcome
from .tallying import Tally, count, read_equivalents, write_table

SOURCE = '''
"""A module."""

LIMIT = 3


class Box:
    """A class."""

    def is_full(self, size: int = 4) -> bool:
        """Say whether it is full."""
        if size < LIMIT:
            raise ValueError("E101", f"too small: {size}")
        return size > LIMIT and self is not None
'''
NAMES = [
    "box:Box.is_full: if size < LIMIT -> if not size < LIMIT",
    "box:Box.is_full: size < LIMIT -> size <= LIMIT",
    "box:Box.is_full: raise ValueError('E101', f'too small: {size}') -> pass",
    "box:Box.is_full: ValueError('E101', f'too small: {size}') -> ValueError('E101~', f'too small: {size}')",
    "box:Box.is_full: return size > LIMIT and self is not None -> return None",
    "box:Box.is_full: size > LIMIT and self is not None -> size > LIMIT or self is not None",
    "box:Box.is_full: size > LIMIT -> size >= LIMIT",
    "box:Box.is_full: self is not None -> self is None",
]


@pytest.fixture
def box(tmp_path: Path) -> Path:
    """Return a module's file."""
    path = tmp_path / "box.py"
    path.write_text(SOURCE, encoding="utf-8")
    return path


def test_bodies_of_functions_are_changed_and_nothing_else(box: Path) -> None:
    """No docstring, annotation, default, constant of the module or wording of an error."""
    assert [mutant.name for mutant in find_mutants(box, "box")] == NAMES


def test_a_mutant_is_compiled_as_if_it_stood_in_its_module(box: Path) -> None:
    """Its code takes the place of a living function's, and does the changed thing."""
    space: dict[str, type] = {}
    exec(compile(SOURCE, str(box), "exec"), space)  # noqa: S102 - the source above
    full = space["Box"].is_full  # type: ignore[attr-defined] # a method of the source above
    before = full(space["Box"](), 3)
    full.__code__ = compile_mutant(find_mutants(box, "box")[6])
    assert (before, full(space["Box"](), 3)) == (False, True)


def test_equivalents_are_mutants_with_a_reason_and_few() -> None:
    """Every mutant has a name. One that no mutant has is a leftover; one without a reason is an excuse."""
    listed = [mutant.name for mutant in list_mutants(list_files())]
    names = set(listed)
    assert len(listed) == len(names) > 8000
    equivalents = read_equivalents(EQUIVALENT)
    assert [name for name in equivalents if name not in names] == []
    assert [name for name, reason in equivalents.items() if not reason] == []
    assert len(equivalents) < len(names) / 50


def test_scores_are_counted_with_and_without_equivalents(box: Path) -> None:
    """An equivalent that a test notices is not one."""
    mutants = find_mutants(box, "box")[:4]
    outcomes = dict.fromkeys(NAMES[:3], Outcome(KILLED, "a test")) | {NAMES[3]: Outcome(SURVIVED)}
    totals = count(mutants, outcomes, {NAMES[2]: "noticed all the same", NAMES[3]: "argued"})["box"]
    assert totals == Tally(mutants=4, killed=3, equivalent=1)
    assert (totals.score, totals.plain_score, totals.survived) == (1.0, 0.75, 0)
    assert write_table({"box": totals, "all": totals}).splitlines()[2:] == [
        "| `box` | 4 | 3 | 0 | 1 | 100.0% |",
        "| all of them | 4 | 3 | 0 | 1 | 100.0% |",
    ]


def test_a_seeded_sample_of_mutants_is_noticed(tmp_path: Path) -> None:
    """At least 80 %, since chance counts among sixty; of all mutants, by `make mutants`, 90 %."""
    words = [
        "--quick",
        "--sample",
        "60",
        "--seed",
        "9",
        "--jobs",
        "1",
        "--least",
        "0.8",
        "--kept",
        str(tmp_path),
    ]
    command = [sys.executable, "-m", "tests.mutation.mutants", *words]
    plain = {name: text for name, text in os.environ.items() if not name.startswith(("COV", "PYTEST"))}
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=plain)
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
