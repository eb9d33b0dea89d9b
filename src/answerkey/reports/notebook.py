"""Runs, comparisons and audits in a notebook, as they are printed."""

from __future__ import annotations

from html import escape

from answerkey.reports.audit_text import draw_audit
from answerkey.reports.comparison_text import draw_pairs
from answerkey.reports.layout import plain_text
from answerkey.reports.summary import draw_summary
from answerkey.runs import Run
from answerkey.verbs import Comparison
from answerkey.verbs.audits import Audit

WIDTH = 110


def to_text(run: Run) -> str:
    """Return the summary as plain text."""
    return plain_text(draw_summary(run, WIDTH))


def to_html(run: Run) -> str:
    """Return the summary as an HTML fragment; nothing in it comes unescaped from data."""
    return _wrap(to_text(run))


def compare_to_text(comparison: Comparison) -> str:
    """Return a comparison as plain text."""
    return plain_text(draw_pairs(comparison, WIDTH))


def compare_to_html(comparison: Comparison) -> str:
    """Return a comparison as an HTML fragment; nothing in it comes unescaped from data."""
    return _wrap(compare_to_text(comparison))


def audit_to_text(audit: Audit) -> str:
    """Return an audit as plain text."""
    return plain_text(draw_audit(audit, WIDTH))


def audit_to_html(audit: Audit) -> str:
    """Return an audit as an HTML fragment; nothing in it comes unescaped from data."""
    return _wrap(audit_to_text(audit))


def _wrap(text: str) -> str:
    return f'<pre style="line-height: 1.3">{escape(text)}</pre>'
