"""How much of a run's number rests on format, position and chance.

The completions of a run are read again by every rule and as other harnesses read them. Some rows at
a time are counted by themselves (`measure_rows`), the parts are merged, and what stands out becomes
a finding: a sentence with its numbers and a next step.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import polars as pl

from answerkey.datasets.dataset import (
    CleanLabels,
    Dataset,
    Recorded,
    choose_clean,
    read_label_quality,
)
from answerkey.datasets.rows import Rows
from answerkey.engines import Spread, open_engine
from answerkey.errors import RunError
from answerkey.evaluate.job import FEWEST_ROWS, Progress, fit_rows, ignore_progress
from answerkey.evaluate.reopen import Reopened, find_task, remeasure, reopen, require_column
from answerkey.metrics.base import count_left_out, sort_keys
from answerkey.metrics.rows import find_owners
from answerkey.metrics.task_counts import count_choices, count_letters, find_invalid_reasons
from answerkey.reader import EXTRACTORS
from answerkey.run_audit.findings import (
    FIRST,
    SHORT,
    STATED,
    CleanRows,
    Finding,
    ReaderCounts,
    ReasonCounts,
    TaskAudit,
    find_run_findings,
)
from answerkey.runs import KeptCompletions, Run, RunPlace, Table, TaskRun, load_run
from answerkey.scorers import StringEqualsMcqa, choose_audited, find_audited_rows, reads_choices
from answerkey.scorers.rereading import OWN, list_passages, reread
from answerkey.spec import ScoringStep, Task, task_from_source
from answerkey.text import Drawn
from answerkey.types import RULE_NAMES, Completions, CompletionStatus, Notice, Samples, Scores

#: How many completions are read together.
BLOCK = 32_768
#: Starting worker processes takes as long as reading texts of so many bytes; each counts for some
#: more.
WORKER_BYTES, TEXT_BYTES = 4_000_000, 200
#: How many samples are named for each thing that is found.
SHOWN = 5


@dataclass(frozen=True)
class Audit(Drawn):
    """The audit of a run, task by task."""

    drawn_by = "answerkey.run_audit.text:draw_audit"

    path: str | None
    status: str
    tasks: tuple[TaskAudit, ...]
    notices: tuple[Notice, ...] = ()

    @property
    def findings(self) -> list[Finding]:
        """The findings of all tasks."""
        return [finding for task in self.tasks for finding in task.findings]


# ------------------------------------------------------------------------------- the way of an
# audit


def audit(
    run: Run | str | RunPlace,
    *,
    task: str | None = None,
    label_quality: str | None = None,
    clean: Sequence[str] = (),
    most: int | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Read all completions of a run by every rule and lens, and say what stands out.

    No model is called. `task` is one of several. `label_quality` names a column of the dataset that
    says whether a label can be relied on; `clean` are its values that say so. Of a task with more
    than `most` completions, so many are read, drawn by nothing but these numbers. The dataset must
    still be there (E505).
    """
    found = load_run(run)
    wanted = list(found.tasks.values()) if task is None else [find_task(found, task)]
    notices: list[Notice] = []
    if found.status != "complete":
        what = "what is said of the completions that are there is not said of all"
        notices.append(Notice(f"the run is {found.status}: {what}"))
    if repeated := [one.key for one in wanted if one.repetitions]:
        notices.append(Notice(f"of the repetitions of `{repeated[0]}` the first is looked at"))
    if not wanted:
        notices.append(Notice("no task of this run is finished"))
    quality = choose_clean(label_quality, clean)
    reopened = [_reopen(found, one, notices) for one in wanted]
    tasks = [_audit_task(one, quality, most, progress or ignore_progress) for one in reopened]
    path = None if found.path is None else str(found.path)
    return Audit(path, found.status, tuple(tasks), tuple(notices))


def _reopen(run: Run, task_run: TaskRun, notices: list[Notice]) -> Reopened:
    """Return a task opened again.

    Without its dataset, if the completions are kept and that is enough.
    """
    try:
        return reopen(run, task_run.key)
    except RunError as error:
        task = task_from_source(task_run.source["task"])
        kept, scorer = task_run.stored_completions, find_reading_step(task).scorer
        needs_samples = reads_choices(scorer) and scorer.options is not None
        if error.code != "E505" or not len(kept) or needs_samples:
            raise
    gone = f"the dataset of `{task_run.key}` is gone"
    notices.append(Notice(f"{gone}: other harnesses' rules do not see the options"))
    ids = kept.read(0, len(kept), ["sample_id"])["sample_id"].gather_every(task.num_trials)
    dataset = Dataset.of(Samples.from_rows([{}] * len(ids), ids), name="samples")
    return Reopened(task, task_run, dataset, KeptCompletions(kept, task.num_trials))


def find_reading_step(task: Task) -> ScoringStep:
    """Return the main scorer if it reads choices, else the first that does, else the main one."""
    reading = [step for step in task.scoring if reads_choices(step.scorer)]
    return task.main_step if task.main_step in reading or not reading else reading[0]


def _audit_task(
    reopened: Reopened, quality: CleanLabels | None, most: int | None, progress: Progress
) -> TaskAudit:
    task_run, dataset, size = reopened.task_run, reopened.dataset, reopened.task.num_trials
    if quality is not None:
        require_column(quality[0], dataset.columns, task_run)
    step = find_reading_step(reopened.task)
    scorer = step.scorer if reads_choices(step.scorer) else None
    samples, audited = len(dataset), None
    if most is not None and len(reopened) > most:
        audited = choose_audited(samples, max(1, most // size))
    told = (
        scorer.templates().get("options") if scorer else None
    )  # choices and truths are in the scores
    read = told.columns if told else frozenset[str]()
    named = {"options", *(() if quality is None else quality[:1])}.intersection(dataset.columns)
    columns = None if read is None else read.union(named, reopened.recorded.columns)
    source = AuditedRows(
        scorer_key=step.key,
        scorer=scorer,
        rows=dataset.rows,
        recorded=reopened.recorded,
        scores=task_run.stored_scores,
        num_trials=size,
        columns=columns,
        encoded=frozenset((task_run.manifest.get("encoded") or {}).get(step.key, ())),
        quality=quality,
        audited=audited,
    )
    together = fit_rows(dataset.rows, columns, reopened.recorded)
    together = max(1, (min(BLOCK, together) if audited is None else together) // size)
    stretches = [
        (offset, min(together, samples - offset)) for offset in range(0, samples, together)
    ]
    first = dataset.rows.slice(0, FEWEST_ROWS).load(columns)
    said = reopened.recorded.slice(0, len(first)).read(first).frame["completion"]
    spread = choose_spread(said, (samples if audited is None else len(audited)) * size)
    parts: list[Part] = []
    for one in open_engine().map(partial(measure_rows, source), stretches, spread=spread):
        parts.append(one)
        progress("audit", sum(each["samples"] for each in parts), samples)
    part = merge_audit_parts(parts)
    rule, reading = scorer.rule_name if scorer else None, part if scorer else {}
    reasons = [
        ReasonCounts(reason, one["count"], one["stated"], one["right"], *one["example"][0])
        for reason, one in reading.get("reasons", {}).items()
    ]
    clean = None
    if quality is not None:
        column, values = quality
        labels: Mapping[str, int] = part.get("labels", {})
        few = part.get("clean", {"n": 0, "owners": 0, "readers": {}})

        def keep(samples: Samples) -> pl.Series:
            return read_label_quality(samples, column).is_in(sorted(values)).arg_true()

        clean = CleanRows(
            column=column,
            values=tuple(sorted(values.intersection(labels))),
            labels=dict(sorted(labels.items(), key=lambda one: (-one[1], one[0]))),
            n=few["n"],
            readers=_list_readers(few, rule or ""),
            every=task_run.metrics,
            metrics=remeasure(task_run, columns=[column], keep=keep),
        )
    found = TaskAudit(
        key=task_run.key,
        scorer=step.key if scorer else None,
        rule=rule,
        n=part["n"],
        left_out=dict(sorted(part["left_out"].items())),
        num_trials=size,
        samples=part["owners"],
        readers=_list_readers(part, rule or ""),
        flips=reading.get("flips", {}).get("count", 0),
        flipped=tuple(reading.get("flips", {}).get("examples", ())),
        flipped_rows=reading.get("flipped_rows"),
        reasons=tuple(sorted(reasons, key=lambda one: (-one.count, one.reason))),
        letters=sort_keys(reading.get("letters", {})),
        choice_counts=dict(
            sorted((int(k), n) for k, n in reading.get("choice_counts", {}).items())
        ),
        clean=clean,
        drawn_from=None if audited is None else len(reopened),
    )
    return replace(found, findings=tuple(find_run_findings(found, part)))


def choose_spread(texts: pl.Series, count: int) -> Spread:
    """Return how so many completions are best read, as some of them tell: each text is read
    once.
    """
    distinct = texts.drop_nulls().unique()
    size = int(distinct.str.len_bytes().sum()) + TEXT_BYTES * len(distinct)
    return "processes" if size * count > WORKER_BYTES * len(texts) else "alone"


def _list_readers(part: Part, rule: str) -> tuple[ReaderCounts, ...]:
    """Return the counts of a part, the run's own reading first."""
    return tuple(
        ReaderCounts(
            name=rule if name == OWN else name,
            kind="own" if name == OWN else "lens" if name in EXTRACTORS else "rule",
            n=part["n"],
            samples=part["owners"],
            **one | {"gained": tuple(one["gained"]), "lost": tuple(one["lost"])},
        )
        for name, one in part.get("readers", {}).items()
    )


# ------------------------------------------------------------------------------- counting some rows

#: Plain numbers and first examples, which merge.
Part = dict[str, Any]

#: How many of the most frequent texts are counted, and how much of each is kept.
TEXTS, TEXT_CHARACTERS = 64, 200

#: What templates and format strings leave behind when nobody fills them.
_PLACEHOLDER = (
    r"\{\{[^{}]{1,80}\}\}"
    r"|<<\s*config\.[^<>]{1,80}>>"
    r"|(?:^|[\s\"'(:>]|\\n)\{[A-Za-z_][A-Za-z0-9_.]{0,60}\}"
)


@dataclass(frozen=True)
class AuditedRows:
    """Where the rows of a task lie, and what is to be looked at; small enough to be sent around.

    `quality` is the column that says whether a label can be relied on, with the values that say so.
    `audited` are the positions of the samples that are looked at, in order; None for all.
    """

    scorer_key: str
    scorer: StringEqualsMcqa | None
    rows: Rows
    recorded: Recorded
    scores: Table
    num_trials: int
    columns: frozenset[str] | None
    encoded: frozenset[str]
    quality: CleanLabels | None
    audited: Sequence[int] | None


def measure_rows(source: AuditedRows, stretch: tuple[int, int]) -> Part:
    """Return what is counted of some samples, given by the first of them and how many."""
    (offset, length), size = stretch, source.num_trials
    key, scorer, quality = source.scorer_key, source.scorer, source.quality
    samples = source.rows.slice(offset, length).load(source.columns)
    completions = source.recorded.slice(offset, len(samples)).read(samples)
    stored = source.scores.read(offset * size, len(samples) * size, [key])
    whole = (samples.repeat(size), completions, Scores(stored[key].struct.unnest(), source.encoded))
    places = pl.int_range(len(samples) * size, dtype=pl.UInt32, eager=True)
    if source.audited is not None:
        chosen = find_audited_rows(source.audited, range(offset, offset + len(samples)), size)
        places = pl.Series(chosen, dtype=pl.UInt32)
        whole = (whole[0].take(places), whole[1].take(places), whole[2].take(places))
    asked, said, verdicts = whole
    if not verdicts.are_all_counted:
        rows = verdicts.counted().arg_true()
        asked, said, verdicts = asked.take(rows), said.take(rows), verdicts.take(rows)
        places = places.gather(rows)
    invalid_reasons = find_invalid_reasons(verdicts, said.frame["status"])
    part = {
        "samples": len(samples),
        "n": len(verdicts),
        "owners": find_owners(asked).n_unique(),
        "left_out": dict(count_left_out(whole[2])),
        "texts": _count_texts(said),
        "cut_off": _count_cut_off(asked.ids, said, invalid_reasons),
        "prompts": _count_placeholders(said),
        "statuses": dict(said.frame["status"].value_counts().iter_rows()),
    }
    if scorer is None:
        return part
    others = [name for name in (*RULE_NAMES, *EXTRACTORS) if name != scorer.rule_name]
    passages = list_passages(scorer, asked, said, verdicts)
    read = reread(passages, others, is_told=scorer.options is not None)
    own, truths = verdicts.text("predicted_choice"), verdicts.text("ground_truth_choice")
    table = pl.DataFrame(
        [asked.ids.alias("id"), truths.alias("truth"), own.alias(OWN), *read.values()]
    )
    rules = {name: OWN if name == scorer.rule_name else name for name in RULE_NAMES}
    first, stated = pl.col(rules[FIRST]), pl.col(rules[STATED])
    differ = [pl.col(name).ne_missing(first) for name in rules.values()]
    disagree = table.filter(first != stated)
    is_flipped = table.select(pl.any_horizontal(differ)).to_series()
    part |= {
        "readers": _compare_readings(table, (OWN, *read)),
        "flips": _count(table.filter(is_flipped)),
        "flipped_rows": places.filter(is_flipped) + offset * size,
        "reasons": _count_reasons(table, invalid_reasons, said, stated),
        "disagree": {
            **_count(disagree),
            "first_right": disagree.filter(first == pl.col("truth")).height,
            "stated_right": disagree.filter(stated == pl.col("truth")).height,
        },
        "letters": count_letters(verdicts),
        "choice_counts": count_choices(verdicts),
    }
    if quality is None:
        return part
    labels = read_label_quality(asked, quality[0])
    is_clean = labels.is_in(sorted(quality[1]))
    clean = table.filter(is_clean)
    return part | {
        "labels": dict(sorted(labels.value_counts().iter_rows())),
        "clean": {
            "n": clean.height,
            "owners": find_owners(asked).filter(is_clean).n_unique(),
            "readers": _compare_readings(clean, (OWN, *read)),
        },
    }


def _compare_readings(table: pl.DataFrame, names: Sequence[str]) -> Part:
    """Return for each reader how often it is right, reads nothing, and reads other than the run
    does.
    """
    truth, own = pl.col("truth"), pl.col(OWN)
    was_right = own.eq_missing(truth)
    counts: dict[str, pl.Expr] = {}
    for name in names:
        read = pl.col(name)
        right = read.eq_missing(truth)
        gained, lost = right & ~was_right, ~right & was_right
        counts[name] = pl.struct(
            correct=right.sum(),
            invalid=read.is_null().sum(),
            changes=read.ne_missing(own).sum(),
            gains=gained.sum(),
            losses=lost.sum(),
            gained=_show(pl.col("id").filter(gained)).implode(),
            lost=_show(pl.col("id").filter(lost)).implode(),
        )
    return table.select(**counts).row(0, named=True)


def _count(found: pl.DataFrame) -> Part:
    return {
        "count": found.height,
        "examples": found.select(_show(pl.col("id"))).to_series().to_list(),
    }


def _show(ids: pl.Expr) -> pl.Expr:
    """Return the first samples of some rows, each once however many of its trials are there."""
    return ids.unique(maintain_order=True).head(SHOWN)


def _count_reasons(
    table: pl.DataFrame, reasons: pl.Series, said: Completions, stated: pl.Expr
) -> Part:
    """Count INVALID rows by reason, and what the text states all the same."""
    rows = table.select(
        "id",
        reasons.alias("reason"),
        stated=stated.is_not_null(),
        right=stated.eq_missing(pl.col("truth")),
        text=said.frame["completion"].str.head(TEXT_CHARACTERS),
    ).drop_nulls("reason")
    groups = rows.group_by("reason", maintain_order=True).agg(
        pl.len().alias("count"),
        pl.col("stated", "right").sum(),
        pl.col("id", "text").first(),
    )
    return {
        reason: {"count": count, "stated": has, "right": right, "example": [[name, text]]}
        for reason, count, has, right, name, text in groups.iter_rows()
    }


def _count_texts(completions: Completions) -> Part:
    """Count the most frequent texts; those with the same beginning and length count as the same."""
    texts = completions.frame.filter(pl.col("status") == CompletionStatus.OK.value).select(
        pl.col("completion").str.head(TEXT_CHARACTERS).alias("text"),
        pl.col("completion").str.len_chars().alias("length"),
    )
    counts = (
        texts.drop_nulls()
        .group_by("text", "length")
        .len()
        .sort("len", "text", descending=[True, False])
    )
    return {f"{length} {text}": count for text, length, count in counts.head(TEXTS).iter_rows()}


def _count_cut_off(ids: pl.Series, completions: Completions, reasons: pl.Series) -> Part:
    frame, texts, invalid = (
        completions.frame,
        completions.frame["completion"],
        reasons.is_not_null(),
    )
    rows = pl.DataFrame([ids.alias("id"), invalid.alias("invalid")]).with_columns(
        is_cut=frame["finish_reason"].eq_missing("length"),
        is_open=reasons.eq_missing("TRUNCATED_THINKING")
        | texts.str.contains("<think>", literal=True).fill_null(value=False)
        & ~texts.str.contains("</think>", literal=True).fill_null(value=False),
    )
    cut = rows.filter(pl.col("is_cut") | pl.col("is_open"))
    texts = texts.str.strip_chars()
    stubs = rows.filter((invalid & texts.str.contains(r"^\p{L}+$")).fill_null(value=False))
    return _count(cut) | {
        "short": int((texts.str.len_chars() <= SHORT).sum()),
        "stubs": _count(stubs),
        "by_limit": int(rows["is_cut"].sum()),
        "open_thoughts": int(rows["is_open"].sum()),
        "invalid": int(cut["invalid"].sum()),
    }


def _count_placeholders(completions: Completions) -> Part:
    """Count in how many prompts something is left that a template should have filled."""
    prompts = completions.frame["prompt"].drop_nulls()
    found = pl.DataFrame({"row": pl.int_range(len(prompts), eager=True), "found": prompts}).select(
        "row", pl.col("found").str.extract_all(_PLACEHOLDER)
    )
    counts: Counter[str] = Counter()
    for text, count in (
        found.explode("found").drop_nulls().unique()["found"].value_counts().iter_rows()
    ):
        counts[re.sub(r"^[^{<]*", "", text)] += count
    return {"n": len(prompts), "placeholders": dict(counts.most_common(TEXTS))}


def merge_audit_parts(parts: Iterable[Mapping[str, Any]]) -> Part:
    """Return parts, given in dataset order, as one: numbers are added, of lists the first entries
    stay.
    """
    merged: Part = {}
    for part in parts:
        for key, leaf in part.items():
            known = merged.get(key)
            if known is None:
                merged[key] = leaf
            elif isinstance(known, dict):
                merged[key] = merge_audit_parts([known, leaf])
            elif isinstance(known, pl.Series):
                merged[key] = pl.concat([known, leaf])
            else:
                merged[key] = [*known, *leaf][:SHOWN] if isinstance(known, list) else known + leaf
    return merged
