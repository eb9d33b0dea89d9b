"""What an audit says about a run: in every summary, in full for people, and for `audit --json`.

Summaries use what was counted while the run was scored; no completion is read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from answerkey.run_audit.findings import (
    FIRST,
    INVALID,
    STATED,
    CleanRows,
    ReaderCounts,
    TaskAudit,
    find_format,
)
from answerkey.runs import TaskRun
from answerkey.text import (
    BLANK,
    Cell,
    Line,
    Span,
    Table,
    clean_numbers,
    describe_metric,
    draw_facts,
    draw_finding,
    draw_letter_table,
    draw_text,
    format_count,
    format_figure,
    format_interval,
    format_percent,
    format_value,
    join_blocks,
    lay_out,
    line,
    list_counts,
    make_visible,
    quote,
    shorten,
)
from answerkey.types import RULE_NAMES

if TYPE_CHECKING:
    from answerkey.run_audit.audit import Audit

#: How much of a sample's id is shown: in a summary, and in an audit of its own.
SHOWN_ID, SHOWN_WHOLE_ID = 24, 40
SHOWN_LABELS = 8
#: What the run itself read, among the counts by rule.
OWN = "own"

# Other rules


def describe_reading(reader: ReaderCounts, audit: TaskAudit | None = None) -> dict[str, Any]:
    """Return a line of "Read by": what a rule or extractor gets from the completions.

    `drawn` is the number of samples that stand for all; None where all were read.
    """
    drawn = None
    notes = []
    if reader.kind == "own":
        notes.append("this run")
    if audit is not None and audit.drawn_from is not None:
        drawn = audit.samples
        notes.append(f"from {drawn:,} samples")
    return {
        "name": reader.name,
        "label": f"{reader.name} ({', '.join(notes)})" if notes else reader.name,
        "kind": reader.kind,
        "value": reader.accuracy,
        "interval": reader.interval,
        "invalid_share": reader.invalid_share,
        "read": reader.read,
        "n": reader.n,
        "drawn": drawn,
    }


def list_readings(task: TaskRun, audit: TaskAudit) -> list[dict[str, Any]]:
    """Return the lines of an audit, all about the same completions.

    Where all were read, the run's own line has its main metric if that is the accuracy, and the
    rule without its fallback has a line of its own.
    """
    lines = [describe_reading(reader, audit) for reader in audit.readers if reader.n]
    if audit.own is None or audit.scorer != task.main_scorer or audit.drawn_from is not None:
        return lines
    first, *lines = lines
    metric = task.main_metric
    if metric is not None and metric.value is not None and task.is_accuracy(metric):
        first |= {"value": metric.value, "interval": metric.interval}
    rule = str(first["name"]).partition("/")[0]
    counts = _count_with_fallback(task, str(task.main_scorer), rule)
    if counts:
        lines = [reading for reading in lines if reading["name"] != rule]
        lines.insert(0, describe_reading(counts[1]))
    return [first, *lines]


def _count_with_fallback(task: TaskRun, key: str, rule: str) -> list[ReaderCounts]:
    """Return what a scorer reads with its fallback and without it; empty if it has none."""
    counts: Mapping[str, int] | None = (task.totals.get("fallback") or {}).get(key)
    if counts is None:
        return []
    n = counts["n"]
    samples = min(n, task.counts["samples"])
    right = counts["right"] - counts["correct"]
    invalid = counts["invalid"] + counts["named"]
    return [
        ReaderCounts(rule, "own", n, counts["right"], counts["invalid"], samples),
        ReaderCounts(rule, "rule", n, right, invalid, samples),
    ]


def describe_fallbacks(task: TaskRun) -> dict[str, dict[str, Any]]:
    """Return, by scorer, what its fallback was asked and read, and the accuracy with and without
    it.
    """
    described: dict[str, dict[str, Any]] = {}
    models = {}
    for scorer in task.manifest.get("scorers") or []:
        models[scorer["key"]] = (scorer.get("model") or {}).get("name")
    for key, counts in (task.totals.get("fallback") or {}).items():
        described[key] = {
            "model": models.get(key),
            **{name: counts[name] for name in ("n", "asked", "named", "correct", "failed")},
            "share": counts["asked"] / counts["n"] if counts["n"] else None,
            "accuracy": counts["correct"] / counts["named"] if counts["named"] else None,
        }
        readers = _count_with_fallback(task, key, "")
        for name, reader in zip(("with_it", "without_it"), readers, strict=True):
            described[key][name] = {
                "accuracy": reader.accuracy,
                "interval": reader.interval,
                "invalid": reader.invalid,
            }
    return described


def say_fallbacks(task: TaskRun, digits: int | None = None) -> list[str]:
    """Return a sentence for each fallback: its share, its accuracy, the numbers with and without
    it.
    """
    sentences = []
    for fallback in describe_fallbacks(task).values():
        if not fallback["n"]:
            continue
        share = format_percent(fallback["share"], digits)
        asked = f"{fallback['asked']:,} of {format_count(fallback['n'], 'completion')} ({share})"
        named = f"named a choice in {fallback['named']:,}, the right one in {fallback['correct']:,}"
        if fallback["named"]:
            named += f" ({format_percent(fallback['accuracy'], digits)})"
        accuracy = format_percent(fallback["with_it"]["accuracy"], digits)
        without = format_percent(fallback["without_it"]["accuracy"], digits)
        sentences.append(
            f"Fallback {fallback['model']}: asked about {asked}, it {named}."
            f" Accuracy is {accuracy} with it and {without} without it."
        )
    return sentences


def say_doubted(task: TaskRun, digits: int | None = None) -> list[str]:
    """Return a sentence about stated choices that are doubted, if there are any."""
    doubted = task.totals.get("doubted")
    whole = describe_whole(task, "").own
    if not doubted or whole is None:
        return []
    without = format_percent(whole.correct / whole.n, digits)
    accepted = format_percent((whole.correct + doubted["correct"]) / whole.n, digits)
    count = f"{doubted['count']:,} of {format_count(whole.n, 'completion')}"
    sentence = f"Doubted replies, which name a choice and speak against it: {count}."
    return [f"{sentence} Accuracy is {without} without them and {accepted} if they were accepted."]


def describe_whole(task: TaskRun, rule: str) -> TaskAudit:
    """Return the audit of all completions as the run's main scorer read them."""
    letters: Mapping[str, Mapping[str, int]] = task.totals.get("letters") or {}
    n = right = invalid = 0
    for letter, row in letters.items():
        n += sum(row.values())
        right += row.get(letter, 0)
        invalid += row.get(INVALID, 0)
    samples = min(n, task.counts["samples"])
    reader = ReaderCounts(rule, "own", n, right, invalid, samples)
    sizes = task.totals.get("choice_counts") or {}
    return TaskAudit(
        task.key,
        task.main_scorer,
        rule,
        n,
        {},
        1,
        samples,
        readers=(reader,),
        letters=letters,
        choice_counts={int(size): count for size, count in sizes.items()},
    )


def describe_counted(task: TaskRun) -> TaskAudit | None:
    """Return the audit of the completions that the run read by every rule; None without any."""
    totals: Mapping[str, Any] = task.totals.get("readings") or {}
    if not totals.get("n"):
        return None
    n, samples = totals["n"], totals["samples"]
    rule = str(next(iter(totals["own_rule"])))
    readers = [ReaderCounts(rule, "own", n, **totals["rules"][OWN], samples=samples)]
    for name in RULE_NAMES:
        if name in totals["rules"]:
            counts = totals["rules"][name]
            readers.append(ReaderCounts(name, "rule", n, **counts, samples=samples))
    total = describe_whole(task, rule).n
    audit = TaskAudit(task.key, task.main_scorer, rule, n, {}, 1, samples, readers=tuple(readers))
    return replace(audit, drawn_from=total) if n < total else audit


def draw_both_rules(task: TaskRun, width: int, digits: int | None = None) -> list[Line]:
    """Return one line with the accuracy by the run's own rule, by `first_character` and by
    `stated_answer`; a warning where another rule moves the number out of its interval.
    """
    audit = describe_counted(task)
    if audit is None:
        return []
    values: dict[str, str] = {}
    for reading in list_readings(task, audit):
        if reading["kind"] == "own" or reading["name"] in {FIRST, STATED}:
            values.setdefault(reading["name"], _say_share(reading["value"], digits))
    parts = [f"by {name} {value}" for name, value in values.items()]
    if len(values) > 1 and len(set(values.values())) == 1:
        parts[1:] = [f"the same by {' and by '.join(list(values)[1:])}"]
    text = f"accuracy {', '.join(parts)}"
    if audit.drawn_from is not None:
        text = f"on {audit.samples:,} samples drawn at random, {text}"
    if any(find_format(audit)):
        advice = "always report the extraction rule together with the accuracy"
        return draw_text(f"{text}; {advice}", width, "warn")
    return draw_text(text, width)


def draw_readings(task: TaskRun, width: int, digits: int | None = None) -> list[Line]:
    """Return what other rules would read, the chance level, and a warning where they really
    differ.
    """
    audit = describe_counted(task)
    if audit is None:
        return []
    rows: list[Sequence[Cell]] = []
    for reading in list_readings(task, audit):
        label = Span(reading["label"], "strong" if reading["kind"] == "own" else "plain")
        accuracy = _say_share(reading["value"], digits)
        invalid = _say_share(reading["invalid_share"], digits)
        rows.append((label, accuracy, invalid, str(reading["read"])))
    table = Table(("Read by", "accuracy", "INVALID", "read"), rows, "<>>>")
    lines = [BLANK, *lay_out(table, width)]
    extent = "`answerkey audit` reads them as other harnesses do, too"
    if audit.drawn_from is not None:
        drawn = f"{audit.n} of {audit.drawn_from} completions, drawn at random"
        extent = f"read are {drawn}; `answerkey audit` reads all"
    facts = "; ".join(_list_chance_facts(describe_whole(task, OWN), digits))
    for note in filter(None, (extent, *say_unfit(audit), facts)):
        lines += draw_text(note, width, "dim")
    for finding in find_format(audit):
        step = f"{finding.step[:1].upper()}{finding.step[1:]}"
        lines += draw_text(f"{finding.sentence} {step}.", width, "warn")
    return lines


def _list_chance_facts(audit: TaskAudit, digits: int | None) -> Iterator[str]:
    if audit.chance is None:
        return
    yield f"chance level {format_percent(audit.chance, digits)}"
    if audit.corrected is not None:
        yield f"corrected for chance {format_percent(audit.corrected, digits)}"
    if audit.kappa is not None:
        yield f"Cohen's kappa {_format_kappa(audit.kappa, digits)}"
    if audit.spread is not None:
        yield f"recalls of letters spread by {audit.spread:.2f} points (RStd)"


def _say_share(share: float | None, digits: int | None) -> str:
    return format_figure(share, as_share=True, digits=digits)


def _format_kappa(kappa: float, digits: int | None) -> str:
    return f"{kappa:.{4 if digits is None else digits}f}"


def say_votes(task: TaskRun) -> str | None:
    """Return how far the trials of a sample agree; None where that is not known."""
    votes: Mapping[str, Any] = (task.totals.get("trials") or {}).get("votes") or {}
    share = votes.get("self_consistency")
    if share is None:
        return None
    trials = votes["samples"] * task.totals["trials"]["num_trials"]
    agreeing = f"{votes['agreeing']} of {trials} trials agree with the majority"
    tied = f"{votes['tied']} of {format_count(votes['samples'], 'sample')} tied"
    silent = f", {votes['no_vote']} without any vote" if votes["no_vote"] else ""
    return f"{format_percent(share)} ({agreeing}; {tied}{silent})"


def say_unfit(audit: TaskAudit) -> list[str]:
    """Return a sentence about the readers that findings ignore, if there are any."""
    if not audit.unfit:
        return []
    names = ", ".join(audit.unfit)
    return [f"no finding rests on what reads less than half of the completions: {names}"]


# Another tool's verdicts

#: What a reason means that is not one of our own for INVALID.
WORDS = {
    "READ_ALIKE": "both read the same answer; the truths differ",
    "READ_ANOTHER": "another answer was read",
    "THEY_READ_NOTHING": "they read no answer",
    "FORMAT_FAILURE": "they compare the whole text with the truth: the "
    "format is wrong, not the answer",
}
SIDES = {
    "only_theirs": "They say right, we say wrong",
    "only_ours": "We say right, they say wrong",
}
UNCOMPARED = {
    "NOT_JUDGED": "not judged by them",
    "PARTLY_RIGHT": "partly right for them",
    "NOT_SCORED": "not scored by us",
}
SHOWN_READERS = 4
SHOWN_ANSWER = 16


def draw_imported_verdicts(
    task: TaskRun, width: int, digits: int | None = None, *, with_shares: bool = True
) -> list[Line]:
    """Return how another tool's verdicts compare with ours, and why they differ."""
    totals: Mapping[str, Any] = task.totals.get("theirs") or {}
    if not totals or not (totals["compared"] or totals["not_compared"]):
        return []
    lines = [BLANK, line(Span("  Imported verdicts and ours", "strong"))]
    n = totals["compared"]
    if n:
        only_theirs, only_ours = totals["only_theirs"]["count"], totals["only_ours"]["count"]
        right, wrong = totals["both_right"], totals["both_wrong"]
        cells = [
            ("imported right", str(right), str(only_theirs)),
            ("imported wrong", str(only_ours), str(wrong)),
        ]
        lines += lay_out(Table(("", "ours right", "ours wrong"), cells, "<>>"), width)
        if with_shares:
            alike = format_percent((right + wrong) / n, digits)
            theirs = format_percent((right + only_theirs) / n, digits)
            ours = format_percent((right + only_ours) / n, digits)
            text = f"the same in {alike} of {format_count(n, 'completion')}"
            verdicts = f"right by the imported verdicts {theirs}, by ours {ours}"
            lines += draw_text(f"{text}; {verdicts}", width, "dim")
    left = [f"{UNCOMPARED[name]} {count}" for name, count in totals["not_compared"].items()]
    if left:
        lines += draw_text(f"not compared: {', '.join(left)}", width, "dim")
    for side in SIDES:
        if totals[side]["count"]:
            lines += _draw_side(side, totals[side]["reasons"], width)
    return lines


def _draw_side(side: str, reasons: Mapping[str, Any], width: int) -> list[Line]:
    """Return why one side alone says right, the most frequent reason first."""
    rows: list[Sequence[Cell]] = []
    meanings = []
    for reason in sorted(reasons, key=lambda reason: -reasons[reason]["count"]):
        example = reasons[reason]["example"]
        rows.append(
            (
                reason,
                str(reasons[reason]["count"]),
                shorten(example["sample_id"], SHOWN_ID),
                make_visible(shorten(example["their_answer"] or "", SHOWN_ANSWER)),
                quote(example["completion"], width),
            )
        )
        if reason in WORDS:
            meanings.append(line(Span(f"  {reason}: {WORDS[reason]}", "dim")))
    header = (SIDES[side], "count", "example", "they read", "completion")
    return [*lay_out(Table(header, rows, "<><<<", flexible=4), width), *meanings]


# The audit of a run


def describe_audit(audit: Audit) -> dict[str, Any]:
    """Return the audit as plain values, with every reader, every reason and every finding."""
    tasks = [_describe_task(task) for task in audit.tasks]
    whole = {"run": audit.path, "status": audit.status, "tasks": tasks}
    notices = [str(notice) for notice in audit.notices]
    described: dict[str, Any] = clean_numbers({"audit": whole, "notices": notices})
    return described


def _describe_task(task: TaskAudit) -> dict[str, Any]:
    described: dict[str, Any] = {
        "key": task.key,
        "scorer": task.scorer,
        "extraction": task.rule,
        "n": task.n,
        "left_out": dict(task.left_out),
        "num_trials": task.num_trials,
        "samples": task.samples,
        "findings": [asdict(finding) for finding in task.findings],
    }
    if task.drawn_from is not None:
        described["drawn_from"] = task.drawn_from
    if task.own is None:
        return described
    return described | {
        "accuracy": task.own.accuracy,
        "chance": task.chance,
        "accuracy_above_chance": task.corrected,
        "kappa": task.kappa,
        "recall_by_letter": dict(task.recalls),
        "rstd_points": task.spread,
        "choice_counts": {str(size): count for size, count in task.choice_counts.items()},
        "readers": [_describe_reader(reader) for reader in task.readers],
        "flips": {"count": task.flips, "examples": list(task.flipped)},
        "invalid": [asdict(reason) for reason in task.reasons],
        "letters": {letter: dict(row) for letter, row in task.letters.items()},
        "clean": task.clean and _describe_clean(task.clean),
    }


def _describe_clean(clean: CleanRows) -> dict[str, Any]:
    return {
        "column": clean.column,
        "values": clean.values,
        "labels": clean.labels,
        "n": clean.n,
        "readers": [_describe_reader(reader) for reader in clean.readers],
        "metrics": [describe_metric(value) for value in clean.metrics.values()],
    }


def _describe_reader(reader: ReaderCounts) -> dict[str, Any]:
    return {
        **asdict(reader),
        "accuracy": reader.accuracy,
        "read": reader.read,
        "invalid_share": reader.invalid_share,
        "interval": reader.interval,
    }


def draw_audit(audit: Audit, width: int, digits: int | None = None) -> list[Line]:
    """Return the whole audit."""
    return join_blocks(_draw_task(task, width, digits) for task in audit.tasks)


def _draw_task(task: TaskAudit, width: int, digits: int | None) -> list[Line]:
    by = f"  by {task.scorer}, extraction {task.rule}" if task.scorer else ""
    title = line(Span(make_visible(task.key), "title"), make_visible(by))
    lines = [title, line(Span(_say_extent(task), "dim")), BLANK]
    if task.own is None:
        what = "  No scorer of this task reads choices: only the completions are looked at."
        lines.append(line(what))
    else:
        lines += _draw_numbers(task, task.own, width, digits)
        lines += _draw_readers(task, width, digits)
        lines += _draw_reasons(task, width, digits)
        lines += draw_letter_table(task.letters, width)
    if task.spread is not None:
        text = f"  RStd, the standard deviation of the shares found: {task.spread:.2f} points"
        lines.append(line(Span(text, "dim")))
    if task.clean is not None:
        lines += _draw_clean(task, task.clean, width, digits)
    if not task.n:
        return [*lines, BLANK, line("There was nothing to audit.")]
    lines += [BLANK, line(Span("Findings", "title"))]
    for number, finding in enumerate(task.findings, 1):
        notes = {"Next: ": finding.step, "See: ": ", ".join(finding.examples)}
        lines += draw_finding(number, finding.sentence, notes, width)
    if not task.findings:
        lines.append(line("  nothing stands out"))
    return lines


def _say_extent(task: TaskAudit) -> str:
    extent = format_count(task.n, "completion")
    if task.drawn_from is not None:
        extent += f", drawn at random from {task.drawn_from}"
    if task.samples != task.n:
        samples = format_count(task.samples, "sample")
        why = "no intervals in the table: those of one sample are not independent"
        extent += f" of {samples}; {why}"
    if task.left_out:
        left = ", ".join(f"{name} {count}" for name, count in task.left_out.items())
        extent += f"; left out: {left}"
    return extent


def _draw_numbers(
    task: TaskAudit, reader: ReaderCounts, width: int, digits: int | None
) -> list[Line]:
    facts = {}
    if reader.accuracy is not None:
        interval = format_interval(reader.interval, digits=digits)
        facts["accuracy"] = f"{format_percent(reader.accuracy, digits)}  {interval}"
    if task.chance is not None:
        low, high = min(task.choice_counts), max(task.choice_counts)
        choices = f"({low} choices each)"
        if low < high:
            choices = f"(mean of 1/K; {low} to {high} choices)"
        facts["chance level"] = f"{format_percent(task.chance, digits)}  {choices}"
    if task.corrected is not None:
        facts["corrected for chance"] = format_percent(task.corrected, digits)
    if task.kappa is not None:
        facts["Cohen's kappa"] = _format_kappa(task.kappa, digits)
    return draw_facts([(name, Span(value, "strong")) for name, value in facts.items()], width)


def _draw_readers(task: TaskAudit, width: int, digits: int | None) -> list[Line]:
    rows: list[Sequence[Cell]] = []
    heading: Sequence[Cell] = [Span("as other harnesses do", "dim"), *[""] * 6]
    for reader in task.readers:
        if reader.kind == "lens" and heading not in rows:
            rows.append(heading)
        label = make_visible(describe_reading(reader, task)["label"])
        accuracy = _say_share(reader.accuracy, digits)
        interval = format_interval(reader.interval, digits=digits)
        differences = (str(reader.changes), f"+{reader.gains}", f"-{reader.losses}")
        if reader.kind == "own":
            differences = ("", "", "")
        name = Span(label, "strong" if reader.kind == "own" else "plain")
        rows.append((name, accuracy, interval, str(reader.read), *differences))
    header = ("Read by", "accuracy", "95 % interval", "read", "changed", "gained", "lost")
    lines = [BLANK, *lay_out(Table(header, rows, "<>>>>>>", flexible=0), width)]
    notes = say_unfit(task)
    if task.flips:
        more = ", …" if task.flips > task.num_trials * len(task.flipped) else ""
        count = format_count(task.flips, "completion")
        notes.append(f"{count} not read alike by all rules: {', '.join(task.flipped)}{more}")
    else:
        notes.append("All rules read every completion alike.")
    for note in notes:
        lines += draw_text(note, width, "dim")
    return lines


def _draw_reasons(task: TaskAudit, width: int, digits: int | None) -> list[Line]:
    rows: list[Sequence[Cell]] = []
    for reason in task.reasons:
        rows.append(
            (
                reason.reason,
                str(reason.count),
                format_percent(reason.count / task.n, digits),
                str(reason.stated),
                str(reason.right),
                shorten(reason.example, SHOWN_WHOLE_ID),
                quote(reason.completion, width),
            )
        )
    if not rows:
        return []
    header = ("Invalid because", "count", "share", "state one", "right", "example", "completion")
    return [BLANK, *lay_out(Table(header, rows, "<>>>><<", flexible=6), width)]


def _draw_clean(task: TaskAudit, clean: CleanRows, width: int, digits: int | None) -> list[Line]:
    values = " or ".join(clean.values) or "none of the clean values"
    title = f"Clean rows: {clean.n} of {task.n}, where {clean.column} is {values}"
    lines = [BLANK, line("  ", Span(make_visible(title), "strong"))]
    lines += draw_text(f"labels: {list_counts(clean.labels, SHOWN_LABELS)}", width, "dim")
    rows: list[Sequence[Cell]] = []
    for name, value in clean.metrics.items():
        label = Span(make_visible(name), "strong")
        every = format_value(clean.every[name], digits) if name in clean.every else ""
        rows.append((label, every, format_value(value, digits), str(value.n)))
    for reader, on_clean in zip(task.readers, clean.readers, strict=False):
        if reader.kind != "lens":
            title = f"accuracy by {make_visible(reader.name)}"
            every = _say_share(reader.accuracy, digits)
            rows.append((title, every, _say_share(on_clean.accuracy, digits), str(on_clean.n)))
    table = Table(("", "all", "clean", "n (clean)"), rows, "<>>>", flexible=0)
    return lines + lay_out(table, width)
