from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from answerkey.testing import FAULTS, KINDS, Asked, Behaviour

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "testing.md"


def test_page_names_everything() -> None:
    """Every kind, fault, setting and count has its line on the page, and faults say the same there."""
    page = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]*`) \| ([^|]*) \|", page, flags=re.MULTILINE)
    named = {name for cell, _ in rows for name in re.findall(r"`(\w+)`", cell)}
    counts = {field.name for field in dataclasses.fields(Asked) if not field.name.startswith("_")}
    assert {*KINDS, *(field.name for field in dataclasses.fields(Behaviour)), *counts} - named == set()
    assert all(f"| `{name}` | {text} |" in page for name, text in FAULTS.items())
