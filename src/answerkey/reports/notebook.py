"""Runs, comparisons and audits where Python shows them: as they are printed, in a notebook as well."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from answerkey.comparison.compare import Comparison
from answerkey.comparison.text import draw_pairs
from answerkey.reports.audit_text import draw_audit
from answerkey.reports.summary import draw_summary
from answerkey.runs import Run
from answerkey.text import plain_text
from answerkey.verbs.audits import Audit

if TYPE_CHECKING:
    from answerkey.reports.pages.plots import Plot

WIDTH = 110


def to_text(run: Run) -> str:
    """Return the summary as plain text."""
    return plain_text(draw_summary(run, WIDTH))


def to_html(run: Run) -> str:
    """Return the summary as HTML; nothing in it comes unescaped from data."""
    return f"<pre>{escape(to_text(run))}</pre>"


def to_plots(run: Run) -> dict[str, Plot]:
    """Return the run's plots as Vega-Lite specifications."""
    from answerkey.reports.pages.plots import list_plots

    return list_plots(run)


def compare_to_text(comparison: Comparison) -> str:
    """Return a comparison as plain text."""
    return plain_text(draw_pairs(comparison, WIDTH))


def compare_to_html(comparison: Comparison) -> str:
    """Return a comparison as HTML; nothing in it comes unescaped from data."""
    return f"<pre>{escape(compare_to_text(comparison))}</pre>"


def audit_to_text(audit: Audit) -> str:
    """Return an audit as plain text."""
    return plain_text(draw_audit(audit, WIDTH))


def audit_to_html(audit: Audit) -> str:
    """Return an audit as HTML; nothing in it comes unescaped from data."""
    return f"<pre>{escape(audit_to_text(audit))}</pre>"
