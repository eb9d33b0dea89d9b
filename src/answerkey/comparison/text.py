"""A comparison of runs, as people read it: the runs, their differences, the samples that flipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import ascii_uppercase

from answerkey.comparison.compare import ALPHA, Comparison, PairComparison, TaskComparison
from answerkey.metrics.paired import CLUSTERED_TEST, EXACT_TEST
from answerkey.text import (
    BLANK,
    Cell,
    Line,
    Span,
    Table,
    draw_text,
    format_chance,
    format_count,
    format_figure,
    format_number,
    lay_out,
    line,
    make_visible,
)

SHOWN_FLIPS = 10
SHOWN_CATEGORIES = 60


def draw_pairs(
    comparison: Comparison, width: int, *, digits: int | None = None, flips: int = SHOWN_FLIPS
) -> list[Line]:
    """Return the whole comparison; `flips` is how many samples are named that only one run has right."""
    lines: list[Line] = []
    for task in comparison.tasks:
        drawing = _Drawing(task, width, digits)
        lines += [*([BLANK] if lines else []), *drawing.draw_head(comparison.baseline), BLANK]
        lines += [*drawing.draw_differences(len(comparison.pairs)), *drawing.draw_verdicts()]
        lines += drawing.draw_notes(len(comparison.pairs))
        for pair in task.pairs if flips else ():
            lines += [BLANK, *drawing.draw_flips(pair, flips)]
        if len(task.pairs) == 1 and task.pairs[0].categories:
            lines += [BLANK, *drawing.draw_categories(task.pairs[0])]
    return lines


def letter_runs(task: TaskComparison) -> Mapping[str, str]:
    """Return what stands for each run: letters, or numbers where there are too many runs."""
    names = ascii_uppercase if len(task.runs) <= len(ascii_uppercase) else map(str, range(len(task.runs)))
    return {run.label: letter for run, letter in zip(task.runs, names, strict=False)}


class _Drawing:
    """One task's comparison, with the letters that stand for its runs."""

    def __init__(self, task: TaskComparison, width: int, digits: int | None) -> None:
        self.task, self.width, self.digits = task, width, digits
        self.letters = letter_runs(task)
        self.names = [f"{self.letters[pair.first]} - {self.letters[pair.second]}" for pair in task.pairs]
        self.as_share = all(run.is_share for run in task.runs)
        self.in_points = self.as_share and digits is None

    def _points(self, value: float, *, is_signed: bool = False) -> str:
        """Return a difference in points of a percentage, or as it is with the digits asked for."""
        text = f"{100 * value:.2f}" if self.in_points else format_number(value, self.digits)
        return f"+{text}" if is_signed and value > 0 else text

    def _interval(self, ends: tuple[float, float] | None) -> str:
        return "" if ends is None else f"[{self._points(ends[0])}, {self._points(ends[1])}]"

    def _figure(self, value: float | None) -> str:
        return format_figure(value, as_share=self.as_share, digits=self.digits)

    def draw_head(self, baseline: str | None) -> list[Line]:
        task = self.task
        count = f"{len(task.runs)} runs on {format_count(task.samples, 'sample')}"
        rows = [
            (
                Span(self.letters[run.label], "strong"),
                make_visible(run.label) + (" (baseline)" if run.label == baseline else ""),
                make_visible(run.model),
                self._figure(run.mean),
                str(run.n),
            )
            for run in task.runs
        ]
        values = " / ".join(dict.fromkeys(run.value for run in task.runs))
        table = Table(("", "run", "model", make_visible(values), "n"), rows, "<<<>>", flexible=2)
        title = line(Span(make_visible(task.key), "title"), f"  {count}")
        return [title, BLANK, *lay_out(table, self.width)]

    def draw_differences(self, tests: int) -> list[Line]:
        rows: list[Sequence[Cell]] = []
        for name, pair in zip(self.names, self.task.pairs, strict=True):
            found, evidence = pair.difference, pair.difference.evidence
            rows.append(
                (
                    Span(name, "strong"),
                    Span(self._points(found.value, is_signed=True), "strong"),
                    self._interval(evidence.interval),
                    "" if evidence.std_error is None else self._points(evidence.std_error),
                    "" if found.flips is None else f"{found.flips.first_only}/{found.flips.second_only}",
                    format_chance(evidence.p),
                    format_chance(found.p_mid) if evidence.p_method == EXACT_TEST else "",
                    format_chance(pair.p_adjusted) if tests > 1 else "",
                )
            )
        unit = "points" if self.in_points else "value"
        header = ("", unit, "95 % interval", "SE", "flips", "p", "mid-p", "p (Holm)")
        return lay_out(Table(header, rows, "<>>>>>>>"), self.width)

    def draw_verdicts(self) -> list[Line]:
        """Return which differences stand, and which may be chance."""
        better, chance = [], []
        for name, pair in zip(self.names, self.task.pairs, strict=True):
            sides = (pair.first, pair.second) if pair.difference.value > 0 else (pair.second, pair.first)
            if pair.is_significant():
                better.append(" than ".join(self.letters[side] for side in sides))
            else:
                chance.append(name)
        texts = [f"better: {', '.join(better)}"] if better else []
        texts += [f"may be chance: {', '.join(chance)}"] if chance else []
        return [part for text in texts for part in draw_text(text, self.width)]

    def draw_notes(self, tests: int) -> list[Line]:
        """Return which tests were made, on which clusters, and what was left out."""
        task, differences = self.task, [pair.difference for pair in self.task.pairs]
        methods = {one.evidence.p_method for one in differences}
        notes = []
        if any(one.flips is not None for one in differences):
            notes.append("flips: samples that only the first / only the second has right")
        if methods == {EXACT_TEST}:
            notes.append("p: McNemar's exact test; mid-p: its mid-p form")
        elif CLUSTERED_TEST in methods:
            notes.append("p: t test over clusters (McNemar's would take samples as independent)")
        elif methods != {None}:
            notes.append("p: paired t test over samples")
        if tests > 1:
            notes.append(f"p (Holm): corrected for {tests} comparisons; it decides, below {ALPHA}")
        if task.cluster_by is not None:
            correction = "corrected by" if task.is_corrected else "without the correction"
            clusters = differences[0].evidence.clusters
            notes.append(f"clustered by {task.cluster_by}: {clusters} clusters, {correction} C/(C-1)")
        for name, pair in zip(self.names, task.pairs, strict=True):
            left_out = ", ".join(f"{reason} {count}" for reason, count in pair.left_out.items())
            notes += [f"{name}: left out: {left_out}"] if left_out else []
            note = pair.difference.evidence.interval_note
            notes += [f"{name}: no interval: {note}"] if note else []
        return [part for note in notes for part in draw_text(note, self.width, "dim")]

    def draw_flips(self, pair: PairComparison, flips: int) -> list[Line]:
        words = ("right", "not") if pair.difference.flips is not None else ("higher", "lower")
        sides = ((pair.first, pair.second, pair.first_only), (pair.second, pair.first, pair.second_only))
        lines: list[Line] = []
        for one, other, ids in sides:
            names = f"{self.letters[one]} {words[0]}, {self.letters[other]} {words[1]}"
            more = f" and {len(ids) - flips} more" if len(ids) > flips else ""
            shown = ", ".join(ids[:flips]) or "none"
            lines += draw_text(f"{names} ({len(ids)}): {shown}{more}", self.width)
        return lines

    def draw_categories(self, pair: PairComparison) -> list[Line]:
        found = pair.categories
        largest = sorted(found, key=lambda one: -one.difference.n)[:SHOWN_CATEGORIES]
        rows = [
            (
                make_visible(one.category),
                str(one.difference.n),
                self._figure(one.difference.first),
                self._figure(one.difference.second),
                self._points(one.difference.value, is_signed=True),
                self._interval(one.difference.evidence.interval),
            )
            for one in found
            if one in largest
        ]
        sides = (self.letters[pair.first], self.letters[pair.second])
        header = (f"By {make_visible(str(self.task.category))}", "n", *sides, " - ".join(sides))
        lines = lay_out(Table((*header, "95 % interval"), rows, "<>>>>>", flexible=0), self.width)
        left = len(found) - len(rows)
        lines += [line(f"  and {left} smaller ones; `--json` has them all")] if left else []
        note = "Intervals of single categories are not corrected for their number."
        return [*lines, line(Span(f"  {note}", "dim"))]
