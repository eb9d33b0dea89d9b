"""A comparison of runs, as people read it: the runs, their differences, the samples that flipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import ascii_uppercase

from answerkey.metrics.paired import CLUSTERED_TEST, EXACT_TEST, Difference
from answerkey.text import (
    BLANK,
    Cell,
    Line,
    Span,
    Table,
    format_chance,
    format_count,
    format_figure,
    format_number,
    lay_out,
    line,
    make_visible,
    wrap,
)
from answerkey.verbs.comparisons import ALPHA, Comparison, PairComparison, TaskComparison

SHOWN_FLIPS = 10
SHOWN_CATEGORIES = 60


def draw_pairs(
    comparison: Comparison, width: int, *, digits: int | None = None, flips: int = SHOWN_FLIPS
) -> list[Line]:
    """Return the whole comparison; `flips` is how many samples are named that only one run has right."""
    lines: list[Line] = []
    for task in comparison.tasks:
        lines += [BLANK] if lines else []
        lines += _Drawing(task, comparison, width, digits).draw(flips)
    return lines


def letter_runs(task: TaskComparison) -> Mapping[str, str]:
    """Return what stands for each run: letters, or numbers where there are too many runs."""
    names = ascii_uppercase if len(task.runs) <= len(ascii_uppercase) else map(str, range(len(task.runs)))
    return {run.label: letter for run, letter in zip(task.runs, names, strict=False)}


class _Drawing:
    """One task's comparison, with the letters that stand for its runs."""

    def __init__(self, task: TaskComparison, comparison: Comparison, width: int, digits: int | None) -> None:
        self.task, self.width, self.digits = task, width, digits
        self.tests, self.baseline = len(comparison.pairs), comparison.baseline
        self.letters = letter_runs(task)
        self.as_share = all(run.is_share for run in task.runs)

    def draw(self, flips: int) -> list[Line]:
        count = f"{len(self.task.runs)} runs on {format_count(self.task.samples, 'sample')}"
        lines = [line(Span(make_visible(self.task.key), "title"), f"  {count}"), BLANK, *self._draw_runs()]
        lines += [BLANK, *self._draw_differences(), *self._draw_verdicts(), *self._draw_notes()]
        for pair in self.task.pairs:
            lines += self._draw_flips(pair, flips)
        return lines + (self._draw_categories(self.task.pairs[0]) if len(self.task.pairs) == 1 else [])

    def _draw_runs(self) -> list[Line]:
        values = dict.fromkeys(run.value for run in self.task.runs)
        rows = [
            (
                Span(self.letters[run.label], "strong"),
                make_visible(run.label) + (" (baseline)" if run.label == self.baseline else ""),
                make_visible(run.model),
                format_figure(run.mean, as_share=self.as_share, digits=self.digits),
                str(run.n),
            )
            for run in self.task.runs
        ]
        header = ("", "run", "model", make_visible(" / ".join(values)), "n")
        return lay_out(Table(header, rows, "<<<>>", flexible=2), self.width)

    def _draw_differences(self) -> list[Line]:
        header = (
            "",
            "points" if self.as_share and self.digits is None else "value",
            "95 % interval",
            "SE",
            "flips",
            "p",
            "mid-p",
            "p (Holm)",
        )
        rows = [self._draw_difference(pair) for pair in self.task.pairs]
        return lay_out(Table(header, rows, "<>>>>>>>"), self.width)

    def _draw_difference(self, pair: PairComparison) -> Sequence[Cell]:
        found, evidence = pair.difference, pair.difference.evidence
        flips, interval = found.flips, evidence.interval
        return (
            Span(self._name_pair(pair), "strong"),
            Span(self._points(found.value, is_signed=True), "strong"),
            "" if interval is None else f"[{self._points(interval[0])}, {self._points(interval[1])}]",
            "" if evidence.std_error is None else self._points(evidence.std_error),
            "" if flips is None else f"{flips.first_only}/{flips.second_only}",
            format_chance(evidence.p),
            format_chance(found.p_mid) if evidence.p_method == EXACT_TEST else "",
            format_chance(pair.p_adjusted) if self.tests > 1 else "",
        )

    def _name_pair(self, pair: PairComparison) -> str:
        return f"{self.letters[pair.first]} - {self.letters[pair.second]}"

    def _points(self, value: float, *, is_signed: bool = False) -> str:
        """Return a difference in points of a percentage, or as it is with the digits asked for."""
        if self.as_share and self.digits is None:
            text = f"{100 * value:.2f}"
        else:
            text = format_number(value, self.digits)
        return f"+{text}" if is_signed and value > 0 else text

    def _draw_verdicts(self) -> list[Line]:
        """Return which differences stand, and which may be chance."""
        better: list[str] = []
        chance: list[str] = []
        for pair in self.task.pairs:
            first, second = self.letters[pair.first], self.letters[pair.second]
            if pair.is_significant():
                better.append(
                    f"{first} than {second}" if pair.difference.value > 0 else f"{second} than {first}"
                )
            else:
                chance.append(self._name_pair(pair))
        lines = [f"better: {', '.join(better)}"] if better else []
        lines += [f"may be chance: {', '.join(chance)}"] if chance else []
        return [line(f"  {part}") for one in lines for part in wrap(one, self.width - 2)]

    def _draw_notes(self) -> list[Line]:
        task, notes = self.task, self._explain_tests()
        if task.cluster_by is not None:
            correction = "corrected by" if task.is_corrected else "without the correction"
            clusters = task.pairs[0].difference.evidence.clusters
            notes.append(f"clustered by {task.cluster_by}: {clusters} clusters, {correction} C/(C-1)")
        for pair in task.pairs:
            left_out = ", ".join(f"{reason} {count}" for reason, count in pair.left_out.items())
            notes += [f"{self._name_pair(pair)}: left out: {left_out}"] if left_out else []
            note = pair.difference.evidence.interval_note
            notes += [f"{self._name_pair(pair)}: no interval: {note}"] if note else []
        return [
            line(Span(f"  {part}", "dim"))
            for note in notes
            for part in wrap(make_visible(note), self.width - 2)
        ]

    def _explain_tests(self) -> list[str]:
        methods = {pair.difference.evidence.p_method for pair in self.task.pairs}
        notes = []
        if any(pair.difference.flips is not None for pair in self.task.pairs):
            notes.append("flips: samples that only the first / only the second has right")
        if methods == {EXACT_TEST}:
            notes.append("p: McNemar's exact test; mid-p: its mid-p form")
        elif CLUSTERED_TEST in methods:
            notes.append("p: t test over clusters (McNemar's would take samples as independent)")
        elif methods != {None}:
            notes.append("p: paired t test over samples")
        if self.tests > 1:
            notes.append(f"p (Holm): corrected for {self.tests} comparisons; it decides, below {ALPHA}")
        return notes

    def _draw_flips(self, pair: PairComparison, flips: int) -> list[Line]:
        if not flips:
            return []
        word = "right" if pair.difference.flips is not None else "higher"
        lines: list[Line] = [BLANK]
        sides = ((pair.first, pair.second, pair.first_only), (pair.second, pair.first, pair.second_only))
        for one, other, ids in sides:
            shown = ", ".join(ids[:flips])
            more = f" and {len(ids) - flips} more" if len(ids) > flips else ""
            names = (
                f"{self.letters[one]} {word}, {self.letters[other]} {'not' if word == 'right' else 'lower'}"
            )
            text = f"{names} ({len(ids)}): {shown or 'none'}{more}"
            lines += [line(f"  {part}") for part in wrap(make_visible(text), self.width - 2)]
        return lines

    def _draw_categories(self, pair: PairComparison) -> list[Line]:
        found = pair.categories
        if not found:
            return []
        largest = sorted(found, key=lambda one: -one.difference.n)[:SHOWN_CATEGORIES]
        shown = [one for one in found if one in largest]
        rows = [(make_visible(one.category), *self._draw_category(one.difference)) for one in shown]
        first, second = self.letters[pair.first], self.letters[pair.second]
        header = (f"By {make_visible(str(self.task.category))}", "n", first, second)
        table = Table((*header, f"{first} - {second}", "95 % interval"), rows, "<>>>>>", flexible=0)
        lines = [BLANK, *lay_out(table, self.width)]
        left = len(found) - len(shown)
        lines += [line(f"  and {left} smaller ones; `--json` has them all")] if left else []
        note = "Intervals of single categories are not corrected for their number."
        return [*lines, line(Span(f"  {note}", "dim"))]

    def _draw_category(self, found: Difference) -> Sequence[Cell]:
        interval = found.evidence.interval
        return (
            str(found.n),
            format_figure(found.first, as_share=self.as_share, digits=self.digits),
            format_figure(found.second, as_share=self.as_share, digits=self.digits),
            self._points(found.value, is_signed=True),
            "" if interval is None else f"[{self._points(interval[0])}, {self._points(interval[1])}]",
        )
