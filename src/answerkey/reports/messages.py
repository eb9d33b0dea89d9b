"""Prompts and completions in full, as lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from answerkey.exporters import to_json
from answerkey.models import images
from answerkey.text import BLANK, INDENT, Line, Span, line, make_visible

#: How many blank lines in a row are shown as they are.
MAX_BLANK = 20


def draw_messages(title: str, messages: Sequence[Mapping[str, object]]) -> list[Line]:
    """Return messages in full under a title; nothing for none."""
    lines = [BLANK, line(Span(title, "title"))] if messages else []
    for message in messages:
        lines.append(line(INDENT, Span(str(message.get("role", "?")), "dim")))
        lines += draw_block(write_value(message.get("content")))
    return lines


def draw_block(text: str) -> list[Line]:
    """Return the lines of a text; a long run of blank ones is told as a count."""
    lines: list[Line] = []
    margin = Span("  | ", "dim")
    texts = make_visible(text, keep_lines=True).split("\n")
    for is_blank, group in groupby(texts, key=lambda text: not text.strip()):
        alike = list(group)
        if is_blank and len(alike) > MAX_BLANK:
            lines.append(line(margin, Span(f"({len(alike):,} blank lines)", "dim")))
        else:
            lines += [line(margin, text) for text in alike]
    return lines


def write_value(value: object) -> str:
    """Return a value as text, with images told in words."""
    text = images.write_content(value)
    if text is None:
        text = images.hide_images(value if isinstance(value, str) else to_json(value))
    return text
