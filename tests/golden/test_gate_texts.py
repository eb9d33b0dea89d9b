"""What is said of gates, letter by letter: to people, to CI servers."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

Call = Callable[..., Any]
Compare = Callable[[str, str], None]
Settle = Callable[[str], str]

PROJECT = Path(__file__).parents[2] / "examples" / "gates"


def cut_gates(text: str) -> str:
    """Return the part of a summary that is about gates."""
    return text[text.index("Gates  ") :]


def test_gates_of_the_example(call: Call, compare: Compare, settle: Settle) -> None:
    """The released model passes, its successor does not.

    Summary, JUnit, Markdown and JSON say the same.
    """
    shutil.copytree(PROJECT, "gates")
    released = call("run", "gates", "--out", "runs/released")
    assert released.code == 0
    words = (
        "--completion-column",
        "candidate",
        "--baseline",
        "runs/released",
        "--out",
        "runs/candidate",
    )
    files = ("--junit", "gates.xml", "--summary", "gates.md")
    candidate = call("run", "gates", *words, *files)
    assert candidate.code == 1
    compare("gates.txt", settle(cut_gates(released.out) + cut_gates(candidate.out)))
    junit = settle(Path("gates.xml").read_text(encoding="utf-8"))
    compare("gates.xml", re.sub(r' time="[^"]*"', ' time="0"', junit))
    compare("gates.md", settle(Path("gates.md").read_text(encoding="utf-8")))
    shown = call("show", "runs/candidate", "--json").json["gates"]
    compare("gates.json", settle(json.dumps(shown, indent=2) + "\n"))
