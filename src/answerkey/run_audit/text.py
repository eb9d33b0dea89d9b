"""What an audit says of a run: in every summary, in full for people, and as `audit --json` prints
it.

For a summary all is counted while a run scores (other rules on some completions, chance, another
tool's verdicts); no completion is read again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from answerkey.run_audit.findings import (
    FIRST,
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
from answerkey.types import RULE_NAMES, Validity

if TYPE_CHECKING:
    from answerkey.run_audit.audit import Audit

#: How much is shown of a sample's id: in a summary, and in an audit of its own.
SHOWN_ID, SHOWN_WHOLE_ID = 24, 40
SHOWN_LABELS = 8
#: What the run itself read, among the counts by rule.
OWN = "own"

# ------------------------------------------------------------------------------- other rules


def describe_reading(one: ReaderCounts, audit: TaskAudit | None = None) -> dict[str, Any]:
    """Return one line of "Read by": what a rule or lens gets of the completions, of which it reads
    some.

    `drawn` is the number of samples that stand for all of them; None where all were read, as
    without an audit. `label` is the name with what is to be known of the line.
    """
    drawn = audit.samples if audit is not None and audit.drawn_from is not None else None
    notes = ["this run"] if one.kind == "own" else []
    notes += [] if drawn is None else [f"from {drawn:,} samples"]
    return {
        "name": one.name,
        "label": f"{one.name} ({', '.join(notes)})" if notes else one.name,
        "kind": one.kind,
        "value": one.accuracy,
        "interval": one.interval,
        "invalid_share": one.invalid_share,
        "read": one.read,
        "n": one.n,
        "drawn": drawn,
    }


def list_readings(task: TaskRun, audit: TaskAudit) -> list[dict[str, Any]]:
    """Return the lines of an audit, all of the same completions.

    Where all were read, the run's own line has its main metric if that is the accuracy.
    """
    found = [describe_reading(one, audit) for one in audit.readers if one.n]
    is_own = bool(found) and found[0]["kind"] == "own" and audit.scorer == task.main_scorer
    if not is_own or audit.drawn_from is not None:
        return found
    own, metric = found[0], task.main_metric
    if metric is not None and metric.value is not None and task.is_accuracy(metric):
        own |= {"value": metric.value, "interval": metric.interval}
    name = str(found[0]["name"]).partition("/")[0]
    bare = _count_with_fallback(task, str(task.main_scorer), name)[1:]
    return [
        own,
        *map(describe_reading, bare),
        *(one for one in found[1:] if not bare or one["name"] != name),
    ]


def _count_with_fallback(task: TaskRun, key: str, rule: str) -> list[ReaderCounts]:
    """Return what a scorer reads of all completions with its fallback, and without.

    Empty if it has none.
    """
    one: Mapping[str, int] | None = (task.totals.get("fallback") or {}).get(key)
    if one is None:
        return []
    n, samples = one["n"], min(one["n"], task.counts["samples"])
    right, invalid = one["right"] - one["correct"], one["invalid"] + one["named"]
    return [
        ReaderCounts(rule, "own", n, one["right"], one["invalid"], samples),
        ReaderCounts(rule, "rule", n, right, invalid, samples),
    ]


def describe_fallbacks(task: TaskRun) -> dict[str, dict[str, Any]]:
    """Return, by scorer, what a fallback was asked and read, and the accuracy with and without
    it.
    """
    described: dict[str, dict[str, Any]] = {}
    scorers: Sequence[Mapping[str, Any]] = task.manifest.get("scorers") or []
    models = {one["key"]: (one.get("model") or {}).get("name") for one in scorers}
    for key, one in (task.totals.get("fallback") or {}).items():
        readers = zip(("with_it", "without_it"), _count_with_fallback(task, key, ""), strict=True)
        described[key] = {
            "model": models.get(key),
            **{name: one[name] for name in ("n", "asked", "named", "correct", "failed")},
            "share": one["asked"] / one["n"] if one["n"] else None,
            "accuracy": one["correct"] / one["named"] if one["named"] else None,
            **{
                name: {
                    "accuracy": each.accuracy,
                    "interval": each.interval,
                    "invalid": each.invalid,
                }
                for name, each in readers
            },
        }
    return described


def say_fallbacks(task: TaskRun, digits: int | None = None) -> list[str]:
    """Return a sentence for each fallback: its share, its accuracy, the numbers with and without
    it.
    """
    sentences = []
    for one in (each for each in describe_fallbacks(task).values() if each["n"]):
        share = format_percent(one["share"], digits)
        asked = f"{one['asked']:,} of {format_count(one['n'], 'completion')} ({share})"
        right = f" ({format_percent(one['accuracy'], digits)})" if one["named"] else ""
        named = f"named a choice in {one['named']:,}, the right one in {one['correct']:,}{right}"
        both = [format_percent(one[name]["accuracy"], digits) for name in ("with_it", "without_it")]
        sentences.append(
            f"Fallback {one['model']}: asked about {asked}, it {named}."
            f" Accuracy is {both[0]} with it and {both[1]} without it."
        )
    return sentences


def describe_whole(task: TaskRun, rule: str) -> TaskAudit:
    """Return all completions, as the run's main scorer read them by its rule: what the run
    counted.
    """
    letters: Mapping[str, Mapping[str, int]] = task.totals.get("letters") or {}
    sizes = {int(size): count for size, count in (task.totals.get("choice_counts") or {}).items()}
    n = sum(sum(row.values()) for row in letters.values())
    right = sum(row.get(letter, 0) for letter, row in letters.items())
    invalid = sum(row.get(Validity.INVALID.value, 0) for row in letters.values())
    samples = min(n, task.counts["samples"])
    own = (ReaderCounts(rule, "own", n, right, invalid, samples),)
    whole = TaskAudit(task.key, task.main_scorer, rule, n, {}, 1, samples, readers=own)
    return replace(whole, letters=letters, choice_counts=sizes)


def describe_counted(task: TaskRun) -> TaskAudit | None:
    """Return the completions that the run had every rule read, as an audit.

    None where there are none.
    """
    totals: Mapping[str, Any] = task.totals.get("readings") or {}
    if not totals.get("n"):
        return None
    n, samples, rule = totals["n"], totals["samples"], str(next(iter(totals["own_rule"])))
    counts = {name: totals["rules"][name] for name in (OWN, *RULE_NAMES) if name in totals["rules"]}
    readers = [
        ReaderCounts(*((rule, "own") if name == OWN else (name, "rule")), n, **one, samples=samples)
        for name, one in counts.items()
    ]
    total = describe_whole(task, rule).n
    found = TaskAudit(task.key, task.main_scorer, rule, n, {}, 1, samples, readers=tuple(readers))
    return replace(found, drawn_from=total if n < total else None)


def draw_both_rules(task: TaskRun, width: int, digits: int | None = None) -> list[Line]:
    """Return the accuracy by the run's own rule, and by `first_character` and `stated_answer`, in a
    line.

    It is a warning where another rule moves the number out of its interval.
    """
    audit = describe_counted(task)
    if audit is None:
        return []
    found = [
        (one["name"], _say_share(one["value"], digits))
        for one in list_readings(task, audit)
        if one["kind"] == "own" or one["name"] in {FIRST, STATED}
    ]
    first, *others = [f"by {name} {value}" for name, value in found] or [""]
    if others and len({value for _, value in found}) == 1:
        others = [f"the same by {' and by '.join(name for name, _ in found[1:])}"]
    text = f"accuracy {', '.join([first, *others])}"
    if audit.drawn_from is not None:
        text = f"on {audit.samples:,} samples drawn at random, {text}"
    if any(find_format(audit)):
        advice = "always report the extraction rule together with the accuracy"
        return draw_text(f"{text}; {advice}", width, "warn")
    return draw_text(text, width) if first else []


def draw_readings(task: TaskRun, width: int, digits: int | None = None) -> list[Line]:
    """Return what other rules would read, the chance level, and a sentence where they differ in
    earnest.
    """
    audit = describe_counted(task)
    if audit is None:
        return []
    rows: list[Sequence[Cell]] = [
        (
            Span(one["label"], "strong" if one["kind"] == "own" else "plain"),
            _say_share(one["value"], digits),
            "" if one["invalid_share"] is None else format_percent(one["invalid_share"], digits),
            str(one["read"]),
        )
        for one in list_readings(task, audit)
    ]
    lines = [
        BLANK,
        *lay_out(Table(("Read by", "accuracy", "INVALID", "read"), rows, "<>>>"), width),
    ]
    extent = "`answerkey audit` reads them as other harnesses do, too"
    if audit.drawn_from is not None:
        drawn = f"{audit.n} of {audit.drawn_from} completions, drawn at random"
        extent = f"read are {drawn}; `answerkey audit` reads all"
    notes, whole = [extent, *say_unfit(audit)], describe_whole(task, OWN)
    if whole.chance is not None:
        facts = [f"chance level {format_percent(whole.chance, digits)}"]
        if whole.corrected is not None:
            facts.append(f"corrected for chance {format_percent(whole.corrected, digits)}")
        if whole.kappa is not None:
            facts.append(f"Cohen's kappa {_format_kappa(whole.kappa, digits)}")
        if whole.spread is not None:
            facts.append(f"recalls of letters spread by {whole.spread:.2f} points (RStd)")
        notes.append("; ".join(facts))
    for note in notes:
        lines += draw_text(note, width, "dim")
    for one in find_format(audit):
        lines += draw_text(f"{one.sentence} {one.step[:1].upper()}{one.step[1:]}.", width, "warn")
    return lines


def _say_share(share: float | None, digits: int | None) -> str:
    return format_figure(share, as_share=True, digits=digits)


def _format_kappa(kappa: float, digits: int | None) -> str:
    return f"{kappa:.{4 if digits is None else digits}f}"


def say_votes(task: TaskRun) -> str | None:
    """Return how far the trials of a sample agree; None where nobody knows."""
    votes: Mapping[str, Any] = (task.totals.get("trials") or {}).get("votes") or {}
    if (share := votes.get("self_consistency")) is None:
        return None
    trials = votes["samples"] * task.totals["trials"]["num_trials"]
    of = f"{votes['agreeing']} of {trials} trials agree with the majority"
    silent = f", {votes['no_vote']} without any vote" if votes["no_vote"] else ""
    tied = f"{votes['tied']} of {format_count(votes['samples'], 'sample')} tied"
    return f"{format_percent(share)} ({of}; {tied}{silent})"


def say_unfit(audit: TaskAudit) -> list[str]:
    """Return the sentence about rules and lenses that say little.

    Nothing where each reads half or more.
    """
    if not audit.unfit:
        return []
    return [
        (
            "no finding rests on what reads less than half of the completions: "
            f"{', '.join(audit.unfit)}"
        )
    ]


# ------------------------------------------------------------------------------- another tool's
# verdicts

#: What is said of a reason that is not one of our own for INVALID.
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
    """Return how another tool's verdicts on the same completions compare with ours, and why they
    differ.
    """
    found: Mapping[str, Any] = task.totals.get("theirs") or {}
    if not found or not (found["compared"] or found["not_compared"]):
        return []
    lines = [BLANK, line(Span("  Imported verdicts and ours", "strong"))]
    n, right, wrong = found["compared"], found["both_right"], found["both_wrong"]
    only_theirs, only_ours = (found[side]["count"] for side in SIDES)
    if n:
        counts = {"imported right": (right, only_theirs), "imported wrong": (only_ours, wrong)}
        cells = [(name, *map(str, both)) for name, both in counts.items()]
        lines += lay_out(Table(("", "ours right", "ours wrong"), cells, "<>>"), width)
    if n and with_shares:
        shares = [
            format_percent(count / n, digits) for count in (right + wrong, right + only_theirs)
        ]
        ours = format_percent((right + only_ours) / n, digits)
        alike = f"the same in {shares[0]} of {format_count(n, 'completion')}"
        text = f"{alike}; right by the imported verdicts {shares[1]}, by ours {ours}"
        lines += draw_text(text, width, "dim")
    if left := [f"{UNCOMPARED[name]} {count}" for name, count in found["not_compared"].items()]:
        lines += draw_text(f"not compared: {', '.join(left)}", width, "dim")
    for side, title in SIDES.items():
        if not found[side]["count"]:
            continue
        ordered = sorted(found[side]["reasons"].items(), key=lambda pair: -pair[1]["count"])
        rows: list[Sequence[Cell]] = []
        for reason, one in ordered:
            example = one["example"]
            read = make_visible(shorten(example["their_answer"] or "", SHOWN_ANSWER))
            name = shorten(example["sample_id"], SHOWN_ID)
            rows.append(
                (reason, str(one["count"]), name, read, quote(example["completion"], width))
            )
        header = (title, "count", "example", "they read", "completion")
        lines += lay_out(Table(header, rows, "<><<<", flexible=4), width)
        lines += [
            line(Span(f"  {name}: {WORDS[name]}", "dim")) for name, _ in ordered if name in WORDS
        ]
    # Who reads as they do where the verdicts differ.
    others: Mapping[str, Any] = (task.totals.get("readings") or {}).get("theirs") or {}
    if others.get("n"):
        audit, drawn = describe_counted(task), ""
        if audit is not None and audit.drawn_from is not None:
            drawn = f" among {audit.samples:,} samples drawn at random"
        readers = sorted(others["readers"].items(), key=lambda pair: (-pair[1], pair[0]))
        best = ", ".join(f"{name} {count}" for name, count in readers[:SHOWN_READERS] if count)
        what = (
            f"so many get their verdict by other rules: {best}."
            if best
            else "no rule reads any as they do."
        )
        lines += draw_text(
            f"Of {format_count(others['n'], 'completion')} that differ{drawn}, {what}", width
        )
    return lines


# ------------------------------------------------------------------------------- the audit of a run


def describe_audit(audit: Audit) -> dict[str, Any]:
    """Return the audit as plain values, with every reader, every reason and every finding."""
    whole = {
        "run": audit.path,
        "status": audit.status,
        "tasks": [_describe_task(one) for one in audit.tasks],
    }
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
        "findings": [asdict(one) for one in task.findings],
    }
    described |= {} if task.drawn_from is None else {"drawn_from": task.drawn_from}
    if task.own is None:
        return described
    clean = task.clean and _describe_clean(task.clean)
    return described | {
        "accuracy": task.own.accuracy,
        "chance": task.chance,
        "accuracy_above_chance": task.corrected,
        "kappa": task.kappa,
        "recall_by_letter": dict(task.recalls),
        "rstd_points": task.spread,
        "choice_counts": {str(size): count for size, count in task.choice_counts.items()},
        "readers": [_describe_reader(one) for one in task.readers],
        "flips": {"count": task.flips, "examples": list(task.flipped)},
        "invalid": [asdict(one) for one in task.reasons],
        "letters": {letter: dict(row) for letter, row in task.letters.items()},
        "clean": clean,
    }


def _describe_clean(clean: CleanRows) -> dict[str, Any]:
    return {
        **{name: getattr(clean, name) for name in ("column", "values", "labels", "n")},
        "readers": [_describe_reader(one) for one in clean.readers],
        "metrics": [describe_metric(value) for value in clean.metrics.values()],
    }


def _describe_reader(one: ReaderCounts) -> dict[str, Any]:
    derived = ("accuracy", "read", "invalid_share", "interval")
    return asdict(one) | {name: getattr(one, name) for name in derived}


def draw_audit(audit: Audit, width: int, digits: int | None = None) -> list[Line]:
    """Return the whole audit."""
    return join_blocks(_draw_task(task, width, digits) for task in audit.tasks)


def _draw_task(task: TaskAudit, width: int, digits: int | None) -> list[Line]:
    by = f"  by {task.scorer}, extraction {task.rule}" if task.scorer else ""
    extent = format_count(task.n, "completion")
    extent += "" if task.drawn_from is None else f", drawn at random from {task.drawn_from}"
    if task.samples != task.n:
        samples = format_count(task.samples, "sample")
        extent += (
            f" of {samples}; no intervals in the table: those of one sample are not independent"
        )
    left = ", ".join(f"{name} {count}" for name, count in task.left_out.items())
    extent += f"; left out: {left}" if left else ""
    lines = [
        line(Span(make_visible(task.key), "title"), make_visible(by)),
        line(Span(extent, "dim")),
        BLANK,
    ]
    if task.own is None:
        lines.append(
            line("  No scorer of this task reads choices: only the completions are looked at.")
        )
    else:
        lines += _draw_numbers(task, task.own, width, digits)
        lines += [*_draw_readers(task, width, digits), *_draw_reasons(task, width, digits)]
        lines += draw_letter_table(task.letters, width)
    if task.spread is not None:
        text = f"  RStd, the standard deviation of the shares found: {task.spread:.2f} points"
        lines.append(line(Span(text, "dim")))
    lines += [] if task.clean is None else _draw_clean(task, task.clean, width, digits)
    if not task.n:
        return [*lines, BLANK, line("There was nothing to audit.")]
    lines += [BLANK, line(Span("Findings", "title"))]
    for number, one in enumerate(task.findings, 1):
        notes = {"Next: ": one.step, "See: ": ", ".join(one.examples)}
        lines += draw_finding(number, one.sentence, notes, width)
    return lines if task.findings else [*lines, line("  nothing stands out")]


def _draw_numbers(task: TaskAudit, own: ReaderCounts, width: int, digits: int | None) -> list[Line]:
    counts, facts = task.choice_counts, {}
    if own.accuracy is not None:
        interval = format_interval(own.interval, digits=digits)
        facts["accuracy"] = f"{format_percent(own.accuracy, digits)}  {interval}"
    if task.chance is not None:
        choices = f"({next(iter(counts))} choices each)"
        if len(counts) > 1:
            choices = f"(mean of 1/K; {min(counts)} to {max(counts)} choices)"
        facts["chance level"] = f"{format_percent(task.chance, digits)}  {choices}"
    if task.corrected is not None:
        facts["corrected for chance"] = format_percent(task.corrected, digits)
    if task.kappa is not None:
        facts["Cohen's kappa"] = _format_kappa(task.kappa, digits)
    return draw_facts([(name, Span(value, "strong")) for name, value in facts.items()], width)


def _draw_readers(task: TaskAudit, width: int, digits: int | None) -> list[Line]:
    rows: dict[bool, list[Sequence[Cell]]] = {False: [], True: []}
    for one in task.readers:
        is_own = one.kind == "own"
        rows[one.kind == "lens"].append(
            (
                Span(
                    make_visible(describe_reading(one, task)["label"]),
                    "strong" if is_own else "plain",
                ),
                _say_share(one.accuracy, digits),
                format_interval(one.interval, digits=digits),
                str(one.read),
                *(
                    ("", "", "")
                    if is_own
                    else (str(one.changes), f"+{one.gains}", f"-{one.losses}")
                ),
            )
        )
    heading: list[Sequence[Cell]] = (
        [[Span("as other harnesses do", "dim"), *[""] * 6]] if rows[True] else []
    )
    header = ("Read by", "accuracy", "95 % interval", "read", "changed", "gained", "lost")
    table = Table(header, [*rows[False], *heading, *rows[True]], "<>>>>>>", flexible=0)
    lines = [BLANK, *lay_out(table, width)]
    for note in say_unfit(task):
        lines += draw_text(note, width, "dim")
    text = "All rules read every completion alike."
    if task.flips:
        more = ", …" if task.flips > task.num_trials * len(task.flipped) else ""
        count = format_count(task.flips, "completion")
        text = f"{count} not read alike by all rules: {', '.join(task.flipped)}{more}"
    return lines + draw_text(text, width, "dim")


def _draw_reasons(task: TaskAudit, width: int, digits: int | None) -> list[Line]:
    rows: list[Sequence[Cell]] = [
        (
            one.reason,
            str(one.count),
            format_percent(one.count / task.n, digits),
            str(one.stated),
            str(one.right),
            shorten(one.example, SHOWN_WHOLE_ID),
            quote(one.completion, width),
        )
        for one in task.reasons
    ]
    header = ("Invalid because", "count", "share", "state one", "right", "example", "completion")
    return [BLANK, *lay_out(Table(header, rows, "<>>>><<", flexible=6), width)] if rows else []


def _draw_clean(task: TaskAudit, clean: CleanRows, width: int, digits: int | None) -> list[Line]:
    values = " or ".join(clean.values) or "none of the clean values"
    title = f"Clean rows: {clean.n} of {task.n}, where {clean.column} is {values}"
    lines = [BLANK, line("  ", Span(make_visible(title), "strong"))]
    lines += draw_text(f"labels: {list_counts(clean.labels, SHOWN_LABELS)}", width, "dim")
    rows: list[Sequence[Cell]] = [
        (
            Span(make_visible(name), "strong"),
            format_value(clean.every[name], digits) if name in clean.every else "",
            format_value(value, digits),
            str(value.n),
        )
        for name, value in clean.metrics.items()
    ]
    for one, other in zip(task.readers, clean.readers, strict=False):
        if one.kind != "lens":
            both = [_say_share(each.accuracy, digits) for each in (one, other)]
            rows.append((f"accuracy by {make_visible(one.name)}", *both, str(other.n)))
    return lines + lay_out(
        Table(("", "all", "clean", "n (clean)"), rows, "<>>>", flexible=0), width
    )
