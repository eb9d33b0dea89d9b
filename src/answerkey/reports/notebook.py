"""A run in a notebook: its summary, as it is printed."""

from __future__ import annotations

from html import escape

from answerkey.reports.layout import plain_text
from answerkey.reports.summary import draw_summary
from answerkey.runs import Run

WIDTH = 110


def to_text(run: Run) -> str:
    """Return the summary as plain text."""
    return plain_text(draw_summary(run, WIDTH))


def to_html(run: Run) -> str:
    """Return the summary as an HTML fragment; nothing in it comes unescaped from data."""
    return f'<pre style="line-height: 1.3">{escape(to_text(run))}</pre>'
