"""Errors and notices as lines, safe to print and in one shape."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from answerkey.errors import AnswerkeyError, Place, Problems
from answerkey.reports.layout import BLANK, Line, Span, line
from answerkey.reports.sanitize import make_visible, shorten_path

if TYPE_CHECKING:  # the tables behind it are not needed to say what is wrong with a command line
    from answerkey.types import Notice

SHOWN_ERRORS = 50


def draw_problems(errors: Sequence[AnswerkeyError]) -> list[Line]:
    """Return errors as lines, a blank one between them; after the first 50 only the count of the rest."""
    lines: list[Line] = []
    for error in errors[:SHOWN_ERRORS]:
        lines += [BLANK] if lines else []
        lines += _draw(Span(f"error[{error.code}]", "bad"), error.message, where=error.where, hint=error.hint)
    if len(errors) > SHOWN_ERRORS:
        lines += [BLANK, line(f"and {len(errors) - SHOWN_ERRORS} more errors; `--json` has them all")]
    return lines


def draw_notice(notice: Notice) -> list[Line]:
    """Return a notice as lines."""
    return _draw(Span("warning", "warn"), notice.message, where=notice.where, hint=notice.hint)


def _draw(label: Span, message: str, *, where: Place | None, hint: str | None) -> list[Line]:
    first, *rest = make_visible(message, keep_lines=True).split("\n")
    lines = [line(label, Span(f": {first}", "strong")), *(line(f"  {more}") for more in rest)]
    if where and str(where):
        lines.append(line(Span("  --> ", "dim"), make_visible(show_place(where))))
    if hint:
        first, *rest = make_visible(hint, keep_lines=True).split("\n")
        lines.append(line(Span("  = help: ", "dim"), first))
        lines += [line(f"          {more}") for more in rest]
    return lines


def show_place(place: Place) -> str:
    """Return a place as it is printed: files below the current folder by their short path."""
    return str(place if place.file is None else replace(place, file=shorten_path(place.file)))


def describe_problem(error: AnswerkeyError) -> dict[str, object]:
    """Return an error as `--json` prints it: `error`, or `errors` for several."""
    if isinstance(error, Problems):
        return {"errors": [one.describe() for one in error.errors]}
    return {"error": error.describe()}


def describe_notices(notices: Iterable[Notice]) -> list[dict[str, object]]:
    """Return notices as plain values."""
    found: list[dict[str, object]] = []
    for notice in notices:
        place = notice.where or Place()
        found.append(
            {
                "message": notice.message,
                "file": place.file,
                "line": place.line,
                "column": place.column,
                "hint": notice.hint,
            }
        )
    return found
