"""The audit of a dataset, as people read it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from answerkey.text import (
    BLANK,
    Cell,
    Line,
    Span,
    Table,
    format_count,
    format_interval,
    format_percent,
    lay_out,
    line,
    make_visible,
    shorten,
    shorten_path,
    wrap,
)
from answerkey.verbs.dataset_audits import Baseline, DatasetAudit, Example, TruthStatistics

SHOWN_LABELS, SHOWN_PLACES = 8, 12


def draw_dataset_audit(audit: DatasetAudit, width: int, *, digits: int | None = None) -> list[Line]:
    """Return the whole audit of one dataset."""
    lines = [line(Span(make_visible(audit.name), "title"), f"  {format_count(audit.rows, 'row')}")]
    lines += [*_draw_facts(audit, width), BLANK, *_draw_numbers(audit, width, digits)]
    lines += _draw_places(audit.every, width)
    return [*lines, BLANK, *_draw_findings(audit, width)]


def _draw_facts(audit: DatasetAudit, width: int) -> list[Line]:
    folder = _find_folder(audit.files)
    facts = [] if folder is None else [("folder", shorten_path(folder) or ".")]
    facts += list(audit.fields.items())
    if audit.quality is not None:
        labels = list(audit.quality.values.items())
        shown = ", ".join(f"{name} {count}" for name, count in labels[:SHOWN_LABELS])
        cut = f" and {len(labels) - SHOWN_LABELS} more" if len(labels) > SHOWN_LABELS else ""
        clean = ", ".join(audit.quality.clean) or "none"
        facts.append((audit.quality.column, f"{shown}{cut}; clean: {clean}"))
    rows = [(Span(make_visible(name), "dim"), make_visible(value)) for name, value in facts]
    return lay_out(Table(("", ""), rows, "<<", flexible=1), width)


def _draw_numbers(audit: DatasetAudit, width: int, digits: int | None) -> list[Line]:
    every, clean = audit.every, audit.clean
    rows: list[Sequence[Cell]] = [("rows with a truth", str(every.n), "" if clean is None else str(clean.n))]
    rows.append(("choices", _say_sizes(every), "" if clean is None else _say_sizes(clean)))
    rows.append(("chance level", *_pair(every, clean, lambda one: _say_share(one.chance, digits))))
    rows.append(("majority letter", *_pair(every, clean, lambda one: _say_baseline(one.majority, digits))))
    rows.append(("longest option", *_pair(every, clean, lambda one: _say_baseline(one.longest, digits))))
    rows.append(("places equally likely", *_pair(every, clean, _say_skew)))
    return lay_out(Table(("", "all", "clean"), rows, "<<<"), width)


def _pair(every: TruthStatistics, clean: TruthStatistics | None, say: object) -> tuple[str, str]:
    if not callable(say):
        return "", ""
    return say(every), "" if clean is None else say(clean)


def _say_sizes(one: TruthStatistics) -> str:
    if len(one.sizes) <= 1:
        return f"{next(iter(one.sizes), 0)} each"
    return f"{min(one.sizes)} to {max(one.sizes)}"


def _say_share(share: float | None, digits: int | None) -> str:
    return "no value" if share is None else format_percent(share, digits)


def _say_baseline(baseline: Baseline | None, digits: int | None) -> str:
    if baseline is None:
        return "no value"
    label = f"{make_visible(baseline.label)}: " if baseline.label else ""
    interval = format_interval(baseline.interval, digits=digits)
    return f"{label}{format_percent(baseline.value, digits)} {interval}".rstrip()


def _say_skew(one: TruthStatistics) -> str:
    if one.skew is None:
        return "too few rows to test"
    return f"chi-square {one.skew.statistic:.2f}, df {one.skew.df}, p = {one.skew.p:.4g}"


def _draw_places(every: TruthStatistics, width: int) -> list[Line]:
    """Return how often the truth stands in each place, a row for each number of choices."""
    sizes = [size for size in every.sizes if size <= SHOWN_PLACES]
    if not sizes:
        return []
    most = max(sizes)
    rows: list[Sequence[Cell]] = [
        (
            str(size),
            *(str(count) for count in every.places[size]),
            *[""] * (most - size),
            str(every.sizes[size]),
        )
        for size in sizes
    ]
    header = ("Choices", *(f"place {place}" for place in range(1, most + 1)), "n")
    return [BLANK, *lay_out(Table(header, rows, ">" * (most + 2)), width)]


def _draw_findings(audit: DatasetAudit, width: int) -> list[Line]:
    lines: list[Line] = [line(Span("Findings", "title"))]
    if not audit.findings:
        return [*lines, line("  nothing stands out")]
    folder = _find_folder(audit.files)
    for number, finding in enumerate(audit.findings, 1):
        lead = f"{number:>3}. "
        first, *rest = wrap(make_visible(finding.sentence), width - len(lead))
        lines.append(line(Span(lead, "dim"), Span(first, "warn")))
        lines += [line(" " * len(lead), Span(part, "warn")) for part in rest]
        for part_number, part in enumerate(wrap(make_visible(finding.step), width - 11)):
            lines.append(line(" " * 5, Span("Next: " if not part_number else " " * 6, "dim"), part))
        lines += [_draw_example(one, width, folder) for one in finding.examples]
    return lines


def _find_folder(files: Sequence[str]) -> str | None:
    """Return the folder that several files have in common; None where there is one file."""
    return os.path.commonpath([Path(one).parent for one in files]) if len(files) > 1 else None


def _draw_example(one: Example, width: int, folder: str | None) -> Line:
    file = "" if folder is None or one.file is None else os.path.relpath(one.file, folder or ".")
    place = f"{file}:{one.line}" if file else f"line {one.line}"
    note = f"  {one.note}" if one.note else ""
    return line(" " * 7, Span(shorten(f"{one.sample}  {place}{note}", width - 7), "dim"))
