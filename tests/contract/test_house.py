"""Laws of the house itself."""

from __future__ import annotations

from pathlib import Path

from hypothesis import settings

SOURCE = Path(__file__).parents[2] / "src" / "answerkey"
TESTS = Path(__file__).parents[1]


def test_nothing_is_left_unfinished() -> None:
    """No marker of unfinished work stands in the code."""
    words = ("TO" + "DO", "FIX" + "ME", "XX" + "X", "NotImplemented" + "Error")
    texts = {path: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}
    assert [str(path) for path, text in texts.items() if any(word in text for word in words)] == []


def test_no_law_of_hypothesis_depends_on_the_clock() -> None:
    """`tests/conftest.py` says once, for all of them, that there is no deadline."""
    assert settings().deadline is None
    texts = {path: path.read_text(encoding="utf-8") for path in TESTS.rglob("*.py")}
    word = "deadline" + "="
    assert [path.name for path, text in texts.items() if word in text] == ["conftest.py"]
