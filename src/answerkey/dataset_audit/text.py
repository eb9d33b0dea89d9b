"""The audit of a dataset as JSON and as text."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from answerkey.dataset_audit.audit import Baseline, DatasetAudit, TruthStatistics
from answerkey.dataset_audit.duplicates import DuplicateRow
from answerkey.text import (
    BLANK,
    Cells,
    Lines,
    Span,
    clean_numbers,
    draw_facts,
    draw_finding,
    draw_table,
    format_count,
    format_figure,
    format_interval,
    format_percent,
    shorten,
    shorten_path,
)

MAX_PLACES = 12


def describe_dataset_audits(audits: Sequence[DatasetAudit]) -> dict[str, Any]:
    """Return every dataset with its numbers and findings, as `--json` prints them."""
    datasets = []
    notices: list[str] = []
    for audit in audits:
        datasets.append(
            {
                "name": audit.name,
                "files": list(audit.files),
                "rows": audit.rows,
                "fields": dict(audit.fields),
                "all": asdict(audit.truths),
                "findings": [asdict(finding) for finding in audit.findings],
            }
        )
        notices += map(str, audit.notices)
    described: dict[str, Any] = clean_numbers({"datasets": datasets, "notices": notices})
    return described


def draw_dataset_audit(audit: DatasetAudit, width: int) -> Lines:
    """Return the whole audit of one dataset."""
    folder = None
    facts = {}
    if len(audit.files) > 1:
        folder = os.path.commonpath([Path(file).parent for file in audit.files])
        facts["folder"] = shorten_path(folder) or "."
    facts |= audit.fields
    lines: Lines = [(Span(audit.name, "title"), f"  {format_count(audit.rows, 'row')}")]
    lines += draw_facts(facts.items(), width)
    lines += [BLANK, *draw_facts(_describe_truths(audit.truths).items(), width)]
    lines += [*_draw_places(audit.truths, width), BLANK, Span("Findings", "title")]
    for number, finding in enumerate(audit.findings, 1):
        notes = {"Next: ": finding.step}
        lines += draw_finding(number, finding.sentence, notes, width)
        for example in finding.examples:
            text = shorten(_format_example(example, folder), width - 7)
            lines.append((" " * 7, Span(text, "dim")))
    if not audit.findings:
        lines.append("  no findings")
    return lines


def _format_example(example: DuplicateRow, folder: str | None) -> str:
    place = f"line {example.line}"
    if folder is not None and example.file is not None:
        place = f"{os.path.relpath(example.file, folder or '.')}:{example.line}"
    return f"{example.sample}  {place}  {example.note}".rstrip()


def _describe_truths(truths: TruthStatistics) -> dict[str, str]:
    """Return the number of rows, their choices, the chance level, baselines and places."""
    smallest, largest = min(truths.choice_counts, default=0), max(truths.choice_counts, default=0)
    sizes = f"{smallest} each" if smallest == largest else f"{smallest} to {largest}"
    test = "too few rows to test"
    if truths.position_skew is not None:
        p = f"p = {truths.position_skew.p:.4g}"
        test = f"chi-square {truths.position_skew.statistic:.2f}, df {truths.position_skew.df}, {p}"
    return {
        "rows with a truth": str(truths.n),
        "choices": sizes,
        "chance level": format_figure(truths.chance, as_share=True),
        "majority letter": _format_baseline(truths.majority_letter),
        "longest option": _format_baseline(truths.longest_option),
        "positions equally likely": test,
    }


def _format_baseline(baseline: Baseline | None) -> str:
    if baseline is None:
        return "no value"
    label = f"{baseline.label}: " if baseline.label else ""
    interval = format_interval(baseline.interval)
    return f"{label}{format_percent(baseline.value)} {interval}".rstrip()


def _draw_places(truths: TruthStatistics, width: int) -> Lines:
    """Return how often the truth is in each position, a row for each number of choices."""
    sizes = [size for size in truths.choice_counts if size <= MAX_PLACES]
    if not sizes:
        return []
    most = max(sizes)
    rows: list[Cells] = []
    for size in sizes:
        counts = [*map(str, truths.places[size]), *[""] * (most - size)]
        rows.append((str(size), *counts, str(truths.choice_counts[size])))
    header = ["Choices"]
    for place in range(most):
        header.append(f"position {1 + place}")
    header.append("n")
    align = ">" * len(header)
    return [BLANK, *draw_table(header, rows, align, width)]
