"""The audit of a run, as people read it."""

from __future__ import annotations

from collections.abc import Sequence

from answerkey.reports.readings import list_reading, say_unfit
from answerkey.text import (
    BLANK,
    Cell,
    Line,
    Span,
    Table,
    draw_letter_table,
    format_count,
    format_interval,
    format_percent,
    format_value,
    lay_out,
    line,
    make_visible,
    quote,
    shorten,
    wrap,
)
from answerkey.verbs.audits import Audit, CleanRows, Finding, ReaderCounts, TaskAudit

SHOWN_ID = 40
SHOWN_LABELS = 8


def draw_audit(audit: Audit, width: int, digits: int | None = None) -> list[Line]:
    """Return the whole audit."""
    lines: list[Line] = []
    for task in audit.tasks:
        lines += [BLANK] if lines else []
        lines += _Drawing(task, width, digits).draw()
    return lines


def draw_findings(findings: Sequence[Finding], width: int) -> list[Line]:
    """Return findings as a numbered list, each with its next step and some samples."""
    if not findings:
        return [line(Span("Findings", "title")), line("  nothing stands out")]
    lines: list[Line] = [line(Span("Findings", "title"))]
    for number, finding in enumerate(findings, 1):
        lead = f"{number:>3}. "
        first, *rest = wrap(make_visible(finding.sentence), width - len(lead))
        lines.append(line(Span(lead, "dim"), Span(first, "warn")))
        lines += [line(" " * len(lead), Span(part, "warn")) for part in rest]
        lines += _draw_note("Next: ", finding.step, width)
        if finding.examples:
            lines += _draw_note("See: ", ", ".join(finding.examples), width)
    return lines


def _draw_note(lead: str, text: str, width: int) -> list[Line]:
    indent = " " * 5
    first, *rest = wrap(make_visible(text), width - len(indent) - len(lead))
    lines = [line(indent, Span(lead, "dim"), first)]
    return lines + [line(indent + " " * len(lead), part) for part in rest]


class _Drawing:
    """The audit of one task."""

    def __init__(self, task: TaskAudit, width: int, digits: int | None) -> None:
        self.task, self.width, self.digits = task, width, digits

    def draw(self) -> list[Line]:
        lines = [*self._draw_head(), BLANK]
        if self.task.own is None:
            lines.append(line("  No scorer of this task reads choices: only the completions are looked at."))
        else:
            lines += [*self._draw_numbers(), *self._draw_readers(), *self._draw_flips()]
            lines += [*self._draw_reasons(), *draw_letter_table(self.task.letters, self.width)]
            lines += self._draw_recalls()
        if self.task.clean is not None:
            lines += self._draw_clean(self.task.clean)
        if not self.task.n:
            return [*lines, BLANK, line("There was nothing to audit.")]
        return [*lines, BLANK, *draw_findings(self.task.findings, self.width)]

    def _draw_head(self) -> list[Line]:
        task = self.task
        by = f"  by {task.scorer}, extraction {task.rule}" if task.scorer else ""
        lines = [line(Span(make_visible(task.key), "title"), make_visible(by))]
        left = ", ".join(f"{name} {count}" for name, count in task.left_out.items())
        several = (
            f" of {format_count(task.samples, 'sample')}; no intervals in the table: those of one sample"
        )
        drawn = "" if task.drawn_from is None else f", drawn at random from {task.drawn_from}"
        count = f"{format_count(task.n, 'completion')}{drawn}"
        count += f"{several} are not independent" if task.samples != task.n else ""
        return [*lines, line(Span(f"{count}{f'; left out: {left}' if left else ''}", "dim"))]

    def _draw_numbers(self) -> list[Line]:
        task, own = self.task, self.task.own
        facts: list[tuple[str, str]] = []
        if own is not None and own.accuracy is not None:
            interval = format_interval(own.interval, digits=self.digits)
            facts.append(("accuracy", f"{format_percent(own.accuracy, self.digits)}  {interval}"))
        if task.chance is not None:
            facts.append(
                ("chance level", f"{format_percent(task.chance, self.digits)}  {self._say_choices()}")
            )
        if task.corrected is not None:
            facts.append(("corrected for chance", format_percent(task.corrected, self.digits)))
        if task.kappa is not None:
            facts.append(("Cohen's kappa", f"{task.kappa:.{4 if self.digits is None else self.digits}f}"))
        rows = [(Span(name, "dim"), Span(value, "strong")) for name, value in facts]
        return lay_out(Table(("", ""), rows, "<<"), self.width)

    def _say_choices(self) -> str:
        counts = self.task.choice_counts
        if len(counts) == 1:
            return f"({next(iter(counts))} choices each)"
        return f"(mean of 1/K; {min(counts)} to {max(counts)} choices)"

    def _draw_readers(self) -> list[Line]:
        header = ("Read by", "accuracy", "95 % interval", "read", "changed", "gained", "lost")
        groups = (("own", "rule"), ("lens",))
        rows: list[Sequence[Cell]] = []
        for kinds in groups:
            found = [one for one in self.task.readers if one.kind in kinds]
            rows += (
                [[Span("as other harnesses do", "dim"), *[""] * 6]] if kinds == ("lens",) and found else []
            )
            rows += [self._draw_reader(one) for one in found]
        return [BLANK, *lay_out(Table(header, rows, "<>>>>>>", flexible=0), self.width), *self._draw_unfit()]

    def _draw_unfit(self) -> list[Line]:
        notes = [part for text in say_unfit(self.task) for part in wrap(text, self.width - 2)]
        return [line(Span(f"  {part}", "dim")) for part in notes]

    def _draw_reader(self, one: ReaderCounts) -> list[Cell]:
        is_own = one.kind == "own"
        label = list_reading(one, self.task).label
        moves = ["", "", ""] if is_own else [str(one.changes), f"+{one.gains}", f"-{one.losses}"]
        return [
            Span(make_visible(label), "strong" if is_own else "plain"),
            "no value" if one.accuracy is None else format_percent(one.accuracy, self.digits),
            format_interval(one.interval, digits=self.digits),
            str(one.read),
            *moves,
        ]

    def _draw_flips(self) -> list[Line]:
        task = self.task
        if not task.flips:
            return [line(Span("  All rules read every completion alike.", "dim"))]
        text = (
            f"{format_count(task.flips, 'completion')} not read alike by all rules: {', '.join(task.flipped)}"
        )
        more = ", …" if task.flips > task.num_trials * len(task.flipped) else ""
        return [line(Span(f"  {part}", "dim")) for part in wrap(make_visible(text + more), self.width - 2)]

    def _draw_reasons(self) -> list[Line]:
        if not self.task.reasons:
            return []
        rows: list[Sequence[Cell]] = [
            (
                one.reason,
                str(one.count),
                format_percent(one.count / self.task.n, self.digits),
                str(one.stated),
                str(one.right),
                shorten(one.example, SHOWN_ID),
                quote(one.completion, self.width),
            )
            for one in self.task.reasons
        ]
        header = ("Invalid because", "count", "share", "state one", "right", "example", "completion")
        return [BLANK, *lay_out(Table(header, rows, "<>>>><<", flexible=6), self.width)]

    def _draw_recalls(self) -> list[Line]:
        if self.task.spread is None:
            return []
        text = f"  RStd, the standard deviation of the shares found: {self.task.spread:.2f} points"
        return [line(Span(text, "dim"))]

    def _draw_clean(self, clean: CleanRows) -> list[Line]:
        labels = list(clean.labels.items())
        shown = ", ".join(f"{name} {count}" for name, count in labels[:SHOWN_LABELS])
        more = f" and {len(labels) - SHOWN_LABELS} more" if len(labels) > SHOWN_LABELS else ""
        values = " or ".join(clean.values) or "none of the clean values"
        title = f"Clean rows: {clean.n} of {self.task.n}, where {clean.column} is {values}"
        lines = [BLANK, line("  ", Span(make_visible(title), "strong"))]
        lines += [
            line(Span(f"  {part}", "dim"))
            for part in wrap(make_visible(f"labels: {shown}{more}"), self.width - 2)
        ]
        lines += lay_out(
            Table(("", "all", "clean", "n (clean)"), self._list_clean(clean), "<>>>", flexible=0), self.width
        )
        return lines

    def _list_clean(self, clean: CleanRows) -> list[Sequence[Cell]]:
        rows: list[Sequence[Cell]] = [
            (
                Span(make_visible(name), "strong"),
                format_value(clean.every[name], self.digits) if name in clean.every else "",
                format_value(value, self.digits),
                str(value.n),
            )
            for name, value in clean.metrics.items()
        ]
        pairs = zip(self.task.readers, clean.readers, strict=False)
        return rows + [
            (
                f"accuracy by {make_visible(one.name)}",
                _say(one, self.digits),
                _say(other, self.digits),
                str(other.n),
            )
            for one, other in pairs
            if one.kind != "lens"
        ]


def _say(one: ReaderCounts, digits: int | None) -> str:
    return "no value" if one.accuracy is None else format_percent(one.accuracy, digits)
