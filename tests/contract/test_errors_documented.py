"""Every error code has its paragraph in the docs, and every paragraph its code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from answerkey.errors import CODES

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "errors.md"
SOURCES = sorted((Path(__file__).parents[2] / "src" / "answerkey").rglob("*.py"))


def read_paragraphs() -> dict[str, str]:
    """Return code → the text below its heading."""
    _, *parts = re.split(r"^### (E\d{3})$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_the_page_has_every_code_once_and_no_other() -> None:
    """The headings of the page are the codes, in their order."""
    assert list(read_paragraphs()) == list(CODES)


@pytest.mark.parametrize("code", CODES)
def test_each_paragraph_has_an_example_and_what_to_do(code: str) -> None:
    """A paragraph says what the code means, gives an example and says what to do."""
    paragraph = read_paragraphs()[code]
    assert "\nExample: " in paragraph
    assert "\nWhat to do: " in paragraph


def test_no_error_is_raised_with_an_unknown_code() -> None:
    """Every code that appears in the sources is in the table of codes."""
    used = {
        code
        for path in SOURCES
        for code in re.findall(r'"(E\d{3})"', path.read_text(encoding="utf-8"))
    }
    assert used <= set(CODES)
