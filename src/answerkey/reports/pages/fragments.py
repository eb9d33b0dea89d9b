"""Pieces of HTML that stand alone: no script, no style sheet, nothing loaded, all text escaped.

Colours are the reader's own, so that pieces are legible on light and on dark; marks have two that are seen on
both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from answerkey.text import make_visible, shorten

MARK, OTHER = "#2e86c1", "#c8641e"
LABEL_WIDTH, PLOT_WIDTH, TEXT_WIDTH, ROW_HEIGHT = 210, 280, 190, 22
SHOWN_LABEL = 28
_FRAME = "font-family: system-ui, sans-serif; line-height: 1.45; max-width: 52rem; color: inherit"
_CELL = "padding: 0.15rem 0.9rem 0.15rem 0; border: 0; background: none; vertical-align: top; color: inherit"


def show(text: object) -> str:
    """Return text as HTML shows it: nothing in it is markup, and hidden characters are written out."""
    return escape(make_visible(str(text)))


def wrap_fragment(parts: Iterable[str]) -> str:
    """Return the whole fragment."""
    return f'<div style="{_FRAME}">{"".join(parts)}</div>'


def draw_title(text: str, beside: str = "") -> str:
    """Return a heading; no element of that name, since a notebook has headings of its own."""
    said = f' <span style="opacity: 0.75">{show(beside)}</span>' if beside else ""
    name = f'<strong style="font-size: 1.1em">{show(text)}</strong>'
    return f'<div style="margin: 0.8rem 0 0.2rem">{name}{said}</div>'


def draw_text(text: str, *, is_dim: bool = False) -> str:
    """Return a line of text."""
    style = "margin: 0.15rem 0" + ("; opacity: 0.75" if is_dim else "")
    return f'<div style="{style}">{show(text)}</div>'


def draw_warning(text: str) -> str:
    """Return a line of text that stands out, by a bar and not by colour alone."""
    style = f"margin: 0.3rem 0; padding-left: 0.6rem; border-left: 3px solid {OTHER}"
    return f'<div style="{style}">{show(text)}</div>'


def draw_number(text: str, beside: str) -> str:
    """Return a number in large type, and what is said beside it."""
    return (
        f'<div style="margin: 0.2rem 0"><span style="font-size: 2em; font-weight: 600">{show(text)}</span>'
        f' <span style="opacity: 0.75">{show(beside)}</span></div>'
    )


def draw_findings(findings: Sequence[tuple[str, str]]) -> str:
    """Return sentences as a list, each with its next step."""
    rows = "".join(
        f'<li style="margin: 0.3rem 0">{show(sentence)}<br>'
        f'<span style="opacity: 0.75">Next: {show(step)}</span></li>'
        for sentence, step in findings
    )
    return f'<ol style="margin: 0.2rem 0; padding-left: 1.6rem">{rows}</ol>' if rows else ""


def draw_table(header: Sequence[str], rows: Sequence[Sequence[str]], align: str) -> str:
    """Return a table; `align` has one of `<` and `>` per column. Nothing for no rows."""
    if not rows:
        return ""
    sides = ["text-align: right; white-space: nowrap" if one == ">" else "text-align: left" for one in align]
    head = "".join(
        f'<th scope="col" style="{_CELL}; {side}; opacity: 0.75; font-weight: normal">{show(cell)}</th>'
        for cell, side in zip(header, sides, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f'<td style="{_CELL}; {side}">{show(cell)}</td>' for cell, side in zip(row, sides, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    style = "border-collapse: collapse; margin: 0.4rem 0; font-variant-numeric: tabular-nums"
    return f'<table style="{style}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def draw_details(summary: str, text: str) -> str:
    """Return text, as it is printed, that opens when asked for."""
    body = f'<pre style="line-height: 1.3; overflow: auto">{escape(text)}</pre>'
    return f'<details style="margin-top: 0.6rem"><summary>{show(summary)}</summary>{body}</details>'


@dataclass(frozen=True)
class Point:
    """One row of a forest plot: what it is, its number with the interval, and both in words."""

    label: str
    value: float | None
    interval: Sequence[float] | None
    text: str
    is_own: bool = False


@dataclass(frozen=True)
class Reference:
    """A number that all others are held against, and what it is called."""

    value: float
    name: str


def draw_forest(
    points: Sequence[Point], title: str, *, reference: Reference | None = None, is_share: bool
) -> str:
    """Return numbers with their intervals on one scale, with a dashed line at the reference."""
    scale = _Scale.fit(points, reference, is_share=is_share)
    if scale is None:
        return ""
    bottom = ROW_HEIGHT * len(points) + 4
    width, height = LABEL_WIDTH + PLOT_WIDTH + TEXT_WIDTH, bottom + 16
    rows = "".join(_draw_point(one, number, scale) for number, one in enumerate(points))
    return (
        f'<svg role="img" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        ' style="max-width: 100%; height: auto; font: 12px system-ui, sans-serif; display: block"'
        f' fill="currentColor"><title>{show(title)}</title>{_draw_axis(scale, reference, bottom)}{rows}</svg>'
    )


def _draw_axis(scale: _Scale, reference: Reference | None, bottom: int) -> str:
    """Return the line below all rows, with its ends, and the dashed one with its name."""
    left, right = LABEL_WIDTH, LABEL_WIDTH + PLOT_WIDTH
    parts = [f'<line x1="{left}" x2="{right}" y1="{bottom}" y2="{bottom}" stroke="currentColor"/>']
    names: list[tuple[float, str]] = [(left, scale.write(scale.low)), (right, scale.write(scale.high))]
    if reference is not None:
        x = scale.place(reference.value)
        parts.append(
            f'<line x1="{x}" x2="{x}" y1="0" y2="{bottom}" stroke="currentColor" stroke-dasharray="3 3"/>'
        )
        names = [(x, reference.name)]
    parts += [
        f'<text x="{x}" y="{bottom + 12}" font-size="10" text-anchor="middle">{show(name)}</text>'
        for x, name in names
    ]
    return f'<g opacity="0.7">{"".join(parts)}</g>'


def _draw_point(one: Point, number: int, scale: _Scale) -> str:
    y = ROW_HEIGHT * number + ROW_HEIGHT / 2 + 2
    colour = OTHER if one.is_own else MARK
    label = show(shorten(one.label, SHOWN_LABEL))
    weight = ' font-weight="600"' if one.is_own else ""
    parts = [f'<text x="0" y="{y + 4}"{weight}>{label}</text>']
    if one.interval is not None:
        low, high = map(scale.place, one.interval)
        parts.append(f'<line x1="{low}" x2="{high}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="2"/>')
    if one.value is not None:
        parts.append(_draw_mark(scale.place(one.value), y, colour, is_own=one.is_own))
    parts.append(f'<text x="{LABEL_WIDTH + PLOT_WIDTH + 12}" y="{y + 4}"{weight}>{show(one.text)}</text>')
    return "".join(parts)


def _draw_mark(x: float, y: float, colour: str, *, is_own: bool) -> str:
    """Return a square for the run's own number, a circle for others: colour alone says nothing."""
    if is_own:
        return f'<rect x="{x - 4:.1f}" y="{y - 4}" width="8" height="8" fill="{colour}"/>'
    return f'<circle cx="{x}" cy="{y}" r="4" fill="{colour}"/>'


@dataclass(frozen=True)
class _Scale:
    low: float
    high: float
    is_share: bool

    @classmethod
    def fit(cls, points: Sequence[Point], reference: Reference | None, *, is_share: bool) -> _Scale | None:
        """Return a scale on which all is seen: 0 to 1 for shares; None without any number."""
        ends = [end for one in points for end in (one.interval or ())]
        found = [*ends, *(one.value for one in points if one.value is not None)]
        if not found:
            return None
        if is_share:
            return cls(0.0, 1.0, is_share=True)
        found += [] if reference is None else [reference.value]
        room = (max(found) - min(found)) * 0.05 or 1.0
        return cls(min(found) - room, max(found) + room, is_share=False)

    def place(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(LABEL_WIDTH + PLOT_WIDTH * min(1.0, max(0.0, share)), 1)

    def write(self, value: float) -> str:
        return f"{100 * value:.0f} %" if self.is_share else f"{value:.3g}"
