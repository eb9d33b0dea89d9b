"""Runs, comparisons and audits where Python shows them: as they are printed, and as HTML in a notebook.

What only a notebook needs is loaded when one asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from answerkey.reports.audit_text import draw_audit
from answerkey.reports.comparison_text import draw_pairs
from answerkey.reports.summary import draw_summary
from answerkey.runs import Run
from answerkey.text import plain_text
from answerkey.verbs import Comparison
from answerkey.verbs.audits import Audit

if TYPE_CHECKING:
    from answerkey.reports.pages.plots import Plot

WIDTH = 110


def to_text(run: Run) -> str:
    """Return the summary as plain text."""
    return plain_text(draw_summary(run, WIDTH))


def to_html(run: Run) -> str:
    """Return the run as an HTML fragment; nothing in it comes unescaped from data."""
    from answerkey.reports.pages.rich import draw_run

    return draw_run(run, to_text(run))


def to_plots(run: Run) -> dict[str, Plot]:
    """Return the run's plots as Vega-Lite specifications."""
    from answerkey.reports.pages.plots import list_plots

    return list_plots(run)


def compare_to_text(comparison: Comparison) -> str:
    """Return a comparison as plain text."""
    return plain_text(draw_pairs(comparison, WIDTH))


def compare_to_html(comparison: Comparison) -> str:
    """Return a comparison as an HTML fragment; nothing in it comes unescaped from data."""
    from answerkey.reports.pages.rich import draw_comparison

    return draw_comparison(comparison, compare_to_text(comparison))


def audit_to_text(audit: Audit) -> str:
    """Return an audit as plain text."""
    return plain_text(draw_audit(audit, WIDTH))


def audit_to_html(audit: Audit) -> str:
    """Return an audit as an HTML fragment; nothing in it comes unescaped from data."""
    from answerkey.reports.pages.rich import draw_audit as draw_rich

    return draw_rich(audit, audit_to_text(audit))
