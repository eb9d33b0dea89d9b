"""How much of a run's number rests on format, position and chance.

The completions of a run are read again by every rule and as other harnesses read them. Some rows at a time
are counted by themselves (`measure_rows`), the parts are merged, and what stands out becomes a finding: a
sentence with its numbers and a next step.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import polars as pl

from answerkey.datasets import Dataset, Recorded, Rows
from answerkey.datasets.label_quality import CleanLabels, choose_clean, read_label_quality
from answerkey.engines import Spread, open_engine
from answerkey.errors import RunError
from answerkey.evaluate import (
    Progress,
    Reopened,
    find_task,
    fit_rows,
    reopen,
    reopen_rows,
    require_column,
    stay_silent,
)
from answerkey.evaluate.pipeline import Measured, merge_metrics
from answerkey.metrics import PythonMetric, measure_metrics, wilson
from answerkey.metrics.base import count_left_out, sort_keys
from answerkey.metrics.classification import (
    correct_for_chance,
    measure_chance,
    measure_kappa,
    measure_recalls,
    measure_rstd,
)
from answerkey.metrics.task_counts import count_choices, count_letters, find_invalid_reasons
from answerkey.metrics.trials import find_owners
from answerkey.reader import EXTRACTORS
from answerkey.runs import KeptCompletions, Run, RunPlace, Table, TaskRun, load_run
from answerkey.scorers import StringEqualsMcqa, choose_audited, find_audited_rows
from answerkey.scorers.scoring import (
    FIRST,
    LITERAL,
    OWN,
    RULE_NAMES,
    STATED,
    list_passages,
    reread,
)
from answerkey.spec import ScoringStep, Task, task_from_source
from answerkey.text import Drawn, format_part, format_short_percent
from answerkey.types import Completions, CompletionStatus, MetricValue, Notice, Samples, Scores, Validity

#: How many completions are read together.
BLOCK = 8_192
#: Starting worker processes takes as long as reading so many completions.
WORKER_ROWS = 4_000
#: How many samples are named for each thing that is found.
SHOWN = 5

# ------------------------------------------------------------------------------- what an audit says


@dataclass(frozen=True)
class Finding:
    """One thing to know: a sentence with its numbers, what to do about it, and some samples that show it.

    `kind` is its name in `--json`; the reference page of audits lists them.
    """

    kind: str
    sentence: str
    step: str
    numbers: Mapping[str, float | int | str] = field(default_factory=dict)
    examples: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReaderCounts:
    """What one rule or lens reads in the `n` completions; `own` is what the run itself read.

    `gains` are right by this reading and not by the run's, `losses` the other way round, `changes` all that
    are read otherwise. `gained` and `lost` are the first samples of each. Completions of the same sample are
    not independent: where there are fewer `samples` than completions there is no interval.
    """

    name: str
    kind: Literal["own", "rule", "lens"]
    n: int
    correct: int
    invalid: int
    samples: int
    changes: int = 0
    gains: int = 0
    losses: int = 0
    gained: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    @property
    def accuracy(self) -> float | None:
        """The share of right answers; None without any completion."""
        return self.correct / self.n if self.n else None

    @property
    def read(self) -> int:
        """In how many completions a choice is read."""
        return self.n - self.invalid

    @property
    def reads_half(self) -> bool:
        """Whether it reads at least half of the completions: no finding rests on one that does not."""
        return 2 * self.read >= self.n

    @property
    def invalid_share(self) -> float | None:
        """The share of completions in which no choice is read."""
        return self.invalid / self.n if self.n else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % Wilson interval of the accuracy; None where completions are not independent."""
        return self.reach if self.samples == self.n else None

    @property
    def reach(self) -> tuple[float, float] | None:
        """How far chance may move the accuracy: as if each sample were one completion."""
        if not self.n or not self.samples:
            return None
        return wilson(round(self.correct * self.samples / self.n), self.samples)


@dataclass(frozen=True)
class ReasonCounts:
    """INVALID completions with one reason: how many state an answer somewhere, and the right one."""

    reason: str
    count: int
    stated: int
    right: int
    example: str
    completion: str | None


@dataclass(frozen=True)
class CleanRows:
    """What is left when samples with doubtful labels are taken out, by a column of the dataset.

    `every` has the metrics of the run on all rows, `metrics` those on clean ones.
    """

    column: str
    values: tuple[str, ...]
    labels: Mapping[str, int]
    n: int
    readers: tuple[ReaderCounts, ...]
    every: Mapping[str, MetricValue]
    metrics: Mapping[str, MetricValue]


@dataclass(frozen=True)
class TaskAudit:
    """The audit of one task. `n` completions count; `left_out` says why others do not.

    Without a scorer that reads choices there are no readers, and nothing that follows from them. `flips` are
    completions that not all rules read alike. `drawn_from` is how many completions there are, where not all
    were read.
    """

    key: str
    scorer: str | None
    rule: str | None
    n: int
    left_out: Mapping[str, int]
    num_trials: int
    samples: int
    readers: tuple[ReaderCounts, ...] = ()
    flips: int = 0
    flipped: tuple[str, ...] = ()
    reasons: tuple[ReasonCounts, ...] = ()
    letters: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    choice_counts: Mapping[int, int] = field(default_factory=dict)
    clean: CleanRows | None = None
    findings: tuple[Finding, ...] = ()
    drawn_from: int | None = None

    @property
    def own(self) -> ReaderCounts | None:
        """What the run itself read."""
        return next((one for one in self.readers if one.kind == "own"), None)

    @property
    def chance(self) -> float | None:
        """What guessing among the choices would get."""
        return measure_chance(self.choice_counts)

    @property
    def corrected(self) -> float | None:
        """The accuracy of the run's own reading, corrected for chance."""
        accuracy, chance = None if self.own is None else self.own.accuracy, self.chance
        return None if accuracy is None or chance is None else correct_for_chance(accuracy, chance)

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa of letters true and predicted."""
        return measure_kappa(self.letters)

    @property
    def recalls(self) -> Mapping[str, float]:
        """The share found of each letter."""
        return measure_recalls(self.letters)

    @property
    def spread(self) -> float | None:
        """RStd of the recalls, in points."""
        return measure_rstd(list(self.recalls.values()))

    @property
    def unfit(self) -> tuple[str, ...]:
        """The rules and lenses that read less than half of the completions."""
        return tuple(one.name for one in self.readers if one.kind != "own" and not one.reads_half)

    def find_reader(self, name: str) -> ReaderCounts | None:
        """Return what a rule or lens reads; the run's own rule is found by its name, too."""
        if name == self.rule:
            return self.own
        return next((one for one in self.readers if one.name == name), None)


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


# ------------------------------------------------------------------------------- the way of an audit


def audit(
    run: Run | str | RunPlace,
    *,
    task: str | None = None,
    label_quality: str | None = None,
    clean: Sequence[str] = (),
    most: int | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Read all completions of a run by every rule and lens, and say what stands out; no model is asked.

    `task` is one of several. `label_quality` names a column of the dataset that says whether a label can be
    relied on; `clean` are its values that say so. Of a task with more than `most` completions, so many are
    read, drawn by nothing but these numbers. The dataset must still be there (E505).
    """
    found = run if isinstance(run, Run) else load_run(run)
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
    tasks = [_audit_task(one, quality, most, progress or stay_silent) for one in reopened]
    path = None if found.path is None else str(found.path)
    return Audit(path, found.status, tuple(tasks), tuple(notices))


def _reopen(run: Run, task_run: TaskRun, notices: list[Notice]) -> Reopened:
    """Return a task opened again; without its dataset, if the completions are kept and that is enough."""
    try:
        return reopen(run, task_run.key)
    except RunError as error:
        task = task_from_source(task_run.source["task"])
        kept, scorer = task_run.stored_completions, _find_reading_step(task).scorer
        needs_samples = isinstance(scorer, StringEqualsMcqa) and scorer.options is not None
        if error.code != "E505" or not len(kept) or needs_samples:
            raise
    if run.path is not None:
        notices.append(Notice(f"the dataset of `{task_run.key}` is gone: lenses do not see the options"))
    ids = kept.read(0, len(kept), ["sample_id"])["sample_id"].gather_every(task.num_trials)
    dataset = Dataset.of(Samples(pl.DataFrame([ids]), ids), name="samples")
    return Reopened(task, task_run, dataset, KeptCompletions(kept, task.num_trials))


def _find_reading_step(task: Task) -> ScoringStep:
    """Return the main scorer if it reads choices, else the first that does, else the main one."""
    reading = [step for step in task.scoring if isinstance(step.scorer, StringEqualsMcqa)]
    return task.main_step if task.main_step in reading or not reading else reading[0]


def _audit_task(
    reopened: Reopened, quality: CleanLabels | None, most: int | None, progress: Progress
) -> TaskAudit:
    task_run, dataset, size = reopened.task_run, reopened.dataset, reopened.task.num_trials
    if quality is not None:
        require_column(quality[0], dataset.columns, task_run)
    step = _find_reading_step(reopened.task)
    scorer = step.scorer if isinstance(step.scorer, StringEqualsMcqa) else None
    samples, audited = len(dataset), None
    if most is not None and len(reopened) > most:
        audited = choose_audited(samples, max(1, most // size))
    read = [template.columns for template in scorer.templates().values()] if scorer else []
    named = {"options", *(() if quality is None else quality[:1])}.intersection(dataset.columns)
    known = [one for one in read if one is not None]
    columns = frozenset(named).union(reopened.recorded.columns, *known) if len(known) == len(read) else None
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
    together = BLOCK if audited is None else fit_rows(dataset.rows, columns, reopened.recorded)
    together = max(1, together // size)
    stretches = [(offset, min(together, samples - offset)) for offset in range(0, samples, together)]
    is_large = len(stretches) > 1 and (samples if audited is None else len(audited)) * size > WORKER_ROWS
    spread: Spread = "processes" if is_large else "alone"
    parts: list[Part] = []
    for one in open_engine().map(partial(measure_rows, source), stretches, spread=spread):
        parts.append(one)
        progress("audit", sum(each["samples"] for each in parts), samples)
    part = merge_audit_parts(parts)
    found = TaskAudit(
        key=task_run.key,
        scorer=None,
        rule=None,
        n=part["n"],
        left_out=dict(sorted(part["left_out"].items())),
        num_trials=size,
        samples=part["owners"],
        drawn_from=None if audited is None else len(reopened),
    )
    if scorer is not None:
        found = _add_readings(found, step.key, name_rule(scorer), part)
    if quality is not None:
        found = replace(found, clean=_describe_clean(task_run, found.rule, part, quality))
    return replace(found, findings=tuple(find_run_findings(found, part)))


def name_rule(scorer: StringEqualsMcqa) -> str:
    """Return what the scorer's rule is called."""
    return scorer.extraction if isinstance(scorer.extraction, str) else "pattern"


def _add_readings(found: TaskAudit, scorer: str, rule: str, part: Part) -> TaskAudit:
    sizes = {int(size): count for size, count in part["choice_counts"].items()}
    reasons = [
        ReasonCounts(reason, one["count"], one["stated"], one["right"], *one["example"][0])
        for reason, one in part["reasons"].items()
    ]
    return replace(
        found,
        scorer=scorer,
        rule=rule,
        readers=_list_readers(part, rule),
        flips=part["flips"]["count"],
        flipped=tuple(part["flips"]["examples"]),
        reasons=tuple(sorted(reasons, key=lambda one: (-one.count, one.reason))),
        letters=sort_keys(part["letters"]),
        choice_counts=dict(sorted(sizes.items())),
    )


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
        for name, one in part["readers"].items()
    )


def _describe_clean(task_run: TaskRun, rule: str | None, part: Part, quality: CleanLabels) -> CleanRows:
    column, values = quality
    labels: Mapping[str, int] = part.get("labels", {})
    clean = part.get("clean", {"n": 0, "owners": 0, "readers": {}})
    return CleanRows(
        column=column,
        values=tuple(sorted(values.intersection(labels))),
        labels=dict(sorted(labels.items(), key=lambda one: (-one[1], one[0]))),
        n=clean["n"],
        readers=_list_readers(clean, rule or ""),
        every=task_run.metrics,
        metrics=_measure_clean(task_run, column, values),
    )


def _measure_clean(task_run: TaskRun, column: str, values: frozenset[str]) -> dict[str, MetricValue]:
    """Return every metric of a task on the samples whose `column` has one of these values.

    Metrics of the user's own functions are left out: measuring them would run code.
    """
    task = task_from_source(task_run.source["task"])
    steps = [
        replace(step, metrics=tuple(one for one in step.metrics if one.metric.type != PythonMetric.type))
        for step in task.scoring
    ]
    task = replace(task, scoring=tuple(steps))
    rows, offset, size = reopen_rows(task_run).rows, 0, task.num_trials
    encoded = task_run.manifest.get("encoded") or {}
    measured = []
    for stored in task_run.score_parts():
        count = stored.height // size
        samples = rows.slice(offset, count).load(frozenset({column, *task.design_columns}))
        offset += count
        places = read_label_quality(samples, column).is_in(sorted(values)).arg_true()
        kept = samples.take(places).repeat(size)
        chosen = [place * size + trial for place in places.to_list() for trial in range(size)]
        parts = []
        for step in task.scoring:
            table = stored[step.key].struct.unnest()[chosen]
            scores = Scores(table, frozenset(encoded.get(step.key, ())))
            parts.append(measure_metrics(step.metrics, scores, kept, task.trials))
        measured.append(Measured(len(kept), parts))
    return {value.name: value for value in merge_metrics(task, measured)} if measured else {}


# ------------------------------------------------------------------------------- counting some rows

#: Plain numbers and first examples, which merge.
Part = dict[str, Any]

#: How many of the most frequent texts are counted, and how much of each is kept.
TEXTS, TEXT_CHARACTERS = 64, 200
#: So short are texts of a token or two; one of them that is a word is its beginning.
SHORT = 12

#: What templates and format strings leave behind when nobody fills them.
_PLACEHOLDER = (
    r"\{\{[^{}]{1,80}\}\}"
    r"|<<\s*config\.[^<>]{1,80}>>"
    r"|(?:^|[\s\"'(:>]|\\n)\{[A-Za-z_][A-Za-z0-9_.]{0,60}\}"
)


@dataclass(frozen=True)
class AuditedRows:
    """Where the rows of a task lie, and what is to be looked at; small enough to be sent around.

    `quality` is the column that says whether a label can be relied on, with the values that say so. `audited`
    are the positions of the samples that are looked at, in order; None for all.
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
    stored = source.scores.read(offset * size, len(samples) * size, ["sample_id", key])
    whole = (samples.repeat(size), completions, Scores(stored[key].struct.unnest(), source.encoded))
    if source.audited is not None:
        chosen = find_audited_rows(source.audited, range(offset, offset + len(samples)), size)
        whole = _take(pl.Series(chosen, dtype=pl.UInt32), *whole)
    is_whole = whole[2].are_all_counted
    asked, said, verdicts = whole if is_whole else _take(whole[2].counted().arg_true(), *whole)
    invalid_reasons = find_invalid_reasons(verdicts, said.frame["status"])
    part = {
        "samples": len(samples),
        "n": len(verdicts),
        "owners": find_owners(asked).n_unique(),
        "left_out": dict(count_left_out(whole[2])),
        "texts": _count_texts(said),
        "cut_off": _count_cut_off(asked.ids, said, invalid_reasons.is_not_null()),
        "prompts": _count_placeholders(said),
        "statuses": dict(said.frame["status"].value_counts().iter_rows()),
    }
    if scorer is None:
        return part
    others = [name for name in (*RULE_NAMES, *EXTRACTORS) if name != scorer.extraction]
    read = reread(list_passages(scorer, asked, said, verdicts), others)
    own, truths = (
        pl.Series([None] * len(verdicts), dtype=pl.String) if found is None else found.cast(pl.String)
        for found in (verdicts.column("predicted_choice"), verdicts.column("ground_truth_choice"))
    )
    table = pl.DataFrame([asked.ids.alias("id"), truths.alias("truth"), own.alias(OWN), *read.values()])
    rules = {name: OWN if name == scorer.extraction else name for name in RULE_NAMES}
    first, stated = pl.col(rules[FIRST]), pl.col(rules[STATED])
    differ = [pl.col(name).ne_missing(first) for name in rules.values()]
    disagree = table.filter(first != stated)
    part |= {
        "readers": {name: _compare_readings(table, name) for name in (OWN, *read)},
        "flips": _count(table.filter(pl.any_horizontal(differ))),
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
            "readers": {name: _compare_readings(clean, name) for name in (OWN, *read)},
        },
    }


def _take(
    places: pl.Series, samples: Samples, completions: Completions, scores: Scores
) -> tuple[Samples, Completions, Scores]:
    kept = Scores(scores.frame[places], scores.encoded)
    return samples.take(places), completions.take(places), kept


def _compare_readings(table: pl.DataFrame, name: str) -> Part:
    right, was_right = pl.col(name).eq_missing(pl.col("truth")), pl.col(OWN).eq_missing(pl.col("truth"))
    gained, lost = right & ~was_right, ~right & was_right
    counts = table.select(
        correct=right.sum(),
        invalid=pl.col(name).is_null().sum(),
        changes=pl.col(name).ne_missing(pl.col(OWN)).sum(),
        gains=gained.sum(),
        losses=lost.sum(),
    )
    shown = {"gained": _show(table.filter(gained)), "lost": _show(table.filter(lost))}
    return counts.row(0, named=True) | shown


def _count(found: pl.DataFrame) -> Part:
    return {"count": found.height, "examples": _show(found)}


def _show(found: pl.DataFrame) -> list[str]:
    """Return the first samples of some rows, each once however many of its trials are there."""
    return found["id"].unique(maintain_order=True).head(SHOWN).to_list()


def _count_reasons(table: pl.DataFrame, reasons: pl.Series, said: Completions, stated: pl.Expr) -> Part:
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
    counts = texts.drop_nulls().group_by("text", "length").len().sort("len", "text", descending=[True, False])
    return {f"{length} {text}": count for text, length, count in counts.head(TEXTS).iter_rows()}


def _count_cut_off(ids: pl.Series, completions: Completions, invalid: pl.Series) -> Part:
    frame, texts = completions.frame, completions.frame["completion"]
    rows = pl.DataFrame([ids.alias("id"), invalid.alias("invalid")]).with_columns(
        is_cut=frame["finish_reason"].eq_missing("length"),
        is_open=texts.str.contains("<think>", literal=True).fill_null(value=False)
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
    for text, count in found.explode("found").drop_nulls().unique()["found"].value_counts().iter_rows():
        counts[re.sub(r"^[^{<]*", "", text)] += count
    return {"n": len(prompts), "placeholders": dict(counts.most_common(TEXTS))}


def merge_audit_parts(parts: Iterable[Mapping[str, Any]]) -> Part:
    """Return parts, given in dataset order, as one: numbers are added, of lists the first entries stay."""
    merged: Part = {}
    for part in parts:
        for key, leaf in part.items():
            known = merged.get(key)
            if known is None:
                merged[key] = leaf
            elif isinstance(known, dict):
                merged[key] = merge_audit_parts([known, leaf])
            else:
                merged[key] = [*known, *leaf][:SHOWN] if isinstance(known, list) else known + leaf
    return merged


# ------------------------------------------------------------------------------- what stands out

#: Fewer completions show nothing.
LEAST = 20
#: Nearly all, and few.
MOST_SHARE, FEW_SHARE = 0.95, 0.05
#: From here on the INVALID completions are worth a sentence of their own.
INVALID_SHARE = 0.10
#: A letter that is predicted so much more often than it is true is favoured.
FAVOURED = 0.10
#: A letter that is true so often would be predicted now and then by any model that knows of it.
OFTEN_TRUE = 10
#: A template leaves its placeholder in every prompt, a question of its own only in one.
IN_MOST = 0.9
#: Of texts that are all short, so many single words look cut off.
STUB_SHARE = 0.01
#: As much of a completion as a sentence bears.
SHOWN_TEXT = 60

INVALID = Validity.INVALID.value


def find_run_findings(audit: TaskAudit, part: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield what stands out, the gravest first; `part` is what `measure_rows` counts, merged."""
    return _mark_drawn(audit, _find_all(audit, part))


def find_format(audit: TaskAudit) -> Iterator[Finding]:
    """Yield whether another rule would move the accuracy, of the same completions, out of its interval."""
    return _mark_drawn(audit, _find_format(audit))


def _mark_drawn(audit: TaskAudit, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield findings; where not all samples were read, each says so: its numbers are not those of the run."""
    for one in findings:
        drawn = f"On {audit.samples:,} samples drawn at random: {one.sentence[:1].lower()}{one.sentence[1:]}"
        yield one if audit.drawn_from is None else replace(one, sentence=drawn)


def _find_all(audit: TaskAudit, part: Mapping[str, Any]) -> Iterator[Finding]:
    n, own, letters, statuses, cut = audit.n, audit.own, audit.letters, part["statuses"], part["cut_off"]
    answered = statuses.get(CompletionStatus.OK.value, 0)
    predicted: Counter[str] = Counter()
    for row in letters.values():
        predicted.update({letter: count for letter, count in row.items() if letter != INVALID})
    valid = predicted.total()

    prompts = part["prompts"]["n"]
    left = part["prompts"]["placeholders"].items()
    unfilled = {name: count for name, count in left if count >= IN_MOST * prompts}
    if prompts and unfilled:
        names, count = ", ".join(f"`{name}`" for name in sorted(unfilled)), max(unfilled.values())
        yield Finding(
            "UNFILLED_PLACEHOLDER",
            f"{format_part(count, prompts)} of the prompts still hold {names}, which nobody filled: the model"
            " did not see what should stand there.",
            "correct the name in the prompt's template; `answerkey run FILE --dry-run` shows the first"
            " prompt",
            {"prompts": count, "of": prompts},
        )

    key, same = max(part["texts"].items(), key=lambda one: (one[1], one[0]), default=("", 0))
    are_alike = same > 0 and answered >= LEAST and same >= MOST_SHARE * answered
    if are_alike:
        how = f"All {same:,}" if same == answered else f"{format_part(same, answered)} of the"
        text = key.partition(" ")[2]
        shown = repr(text if len(text) <= SHOWN_TEXT else f"{text[:SHOWN_TEXT]}…")
        yield Finding(
            "COMPLETIONS_ALIKE",
            f"{how} completions are the same: {shown}. Nothing was answered question by question.",
            "look at the prompt and the reply of one sample with `answerkey explain`: is the question in it?",
            {"same": same, "of": answered},
        )

    letter, count = max(predicted.items(), key=lambda one: (one[1], one[0]), default=("", 0))
    true = sum(letters.get(letter, {}).values())
    if valid >= LEAST and count >= MOST_SHARE * valid and true < MOST_SHARE * n and not are_alike:
        how = f"All {count:,}" if count == valid else f"{format_part(count, valid)} of the"
        yield Finding(
            "ONE_LETTER",
            f"{how} valid completions answer {letter!r}, which is true of {format_part(true, n)}: the score"
            " says how often that letter is right, not what the model knows.",
            "look at some prompts with `answerkey explain`; are the options in it, and is the answer asked"
            " for?",
            {"letter": letter, "predicted": count, "valid": valid, "true": true},
        )

    yield from _find_chance(audit)
    yield from _find_format(audit)

    if own is not None and audit.reasons and own.invalid >= INVALID_SHARE * own.n:
        stated, right = (sum(getattr(one, name) for one in audit.reasons) for name in ("stated", "right"))
        first = audit.reasons[0]
        what = f"{stated:,} of them state an answer, {right:,} the right one"
        yield Finding(
            "INVALID",
            f"{format_part(own.invalid, own.n)} completions are INVALID, {first.count:,} of them"
            f" {first.reason}; {what if stated else 'none states a single answer'}.",
            "ask for the letter alone in the prompt, or read them by another rule, see the table",
            {"invalid": own.invalid, "of": own.n, "stated": stated, "right": right},
            tuple(one.example for one in audit.reasons),
        )

    if cut["count"] and n:
        reasons = [
            f"{cut[name]:,} {what}"
            for name, what in (
                ("by_limit", "ended at the limit of tokens"),
                ("open_thoughts", "end within a thought that was never closed"),
            )
            if cut[name]
        ]
        yield Finding(
            "CUT_OFF",
            f"{format_part(cut['count'], n)} completions are cut off ({', '.join(reasons)});"
            f" {cut['invalid']:,} of them are INVALID.",
            "raise `max_tokens` of the model and run again: a cut-off reply says nothing about knowledge",
            {"cut_off": cut["count"], "of": n, "invalid": cut["invalid"]},
            tuple(cut["examples"]),
        )

    # They look cut off though nothing says so: one word where all texts are very short.
    stubs = cut["stubs"]["count"]
    are_short = answered >= LEAST and cut["short"] >= answered and not cut["by_limit"]
    if are_short and stubs >= STUB_SHARE * answered:
        yield Finding(
            "CUT_OFF",
            f"{format_part(stubs, n)} completions are a word that is no choice, and none is longer than"
            f" {SHORT} characters: they look cut off after a token or two.",
            "raise `max_tokens` of the model, or ask for the letter alone in the prompt",
            {"cut_off": stubs, "of": n, "invalid": stubs},
            tuple(cut["stubs"]["examples"]),
        )

    disagree = part.get("disagree") or {"count": 0}
    if disagree["count"] and not {FIRST, STATED}.intersection(audit.unfit):
        yield Finding(
            "FIRST_AND_STATED_DISAGREE",
            f"In {format_part(disagree['count'], n)} completions the first character is one choice and the"
            f" text states another; the first is right in {disagree['first_right']:,}, the stated one in"
            f" {disagree['stated_right']:,}.",
            "read some with `answerkey explain`; for texts that reason first, use `extraction:"
            " stated_answer`",
            {name: disagree[name] for name in ("count", "first_right", "stated_right")},
            tuple(disagree["examples"]),
        )

    totals = {one: sum(row.values()) for one, row in letters.items() if one not in predicted}
    never = {one: count for one, count in totals.items() if count >= OFTEN_TRUE}
    if never and valid >= LEAST and len(predicted) > 1:
        names = ", ".join(f"{one!r} ({count:,})" for one, count in never.items())
        yield Finding(
            "NEVER_PREDICTED",
            f"Some letters are true and never predicted: {names}. All of these samples are wrong, whatever"
            " the model knows.",
            "does the prompt show these options, and does it say that all letters may be answered?",
            never,
        )

    if valid >= 5 * LEAST and not are_alike:
        # Only rows with a prediction: INVALID ones would make every letter look neglected.
        trues = {one: sum(row.values()) - row.get(INVALID, 0) for one, row in letters.items()}
        excess = {one: (count - trues.get(one, 0)) / valid for one, count in predicted.items()}
        letter = max(sorted(excess), key=lambda one: excess[one])
        count, true = predicted[letter], trues.get(letter, 0)
        if excess[letter] >= FAVOURED and count < MOST_SHARE * valid:
            spread = f" The recalls of the letters spread by {audit.spread:.1f} points (RStd)."
            yield Finding(
                "FAVOURED_LETTER",
                f"{letter!r} is predicted in {format_part(count, valid)} of the valid completions and true in"
                f" {format_part(true, valid)}.{'' if audit.spread is None else spread}",
                "ask again with the options in another order; a model that knows the answers is not moved by"
                " it",
                {"letter": letter, "predicted": count, "true": true},
            )

    for status, what in (("REFUSED", "were refused"), ("NO_TEXT", "have no text")):
        count = statuses.get(status, 0)
        if n and count >= max(FEW_SHARE * n, 1):
            low, high = wilson(count, n)
            yield Finding(
                status,
                f"{format_part(count, n)} completions {what} [{100 * low:.1f}, {100 * high:.1f}]; they count"
                " as wrong.",
                "see which with `answerkey export`; is it the questions, or the settings of the endpoint?",
                {"count": count, "of": n},
            )


def _find_chance(audit: TaskAudit) -> Iterator[Finding]:
    own, chance = audit.own, audit.chance
    if own is None or own.n < LEAST or chance is None or own.reach is None or own.accuracy is None:
        return
    low, high = own.reach
    if low > chance:
        return
    if 2 * own.invalid > own.n - own.correct:
        meant, step = "most of what is wrong is INVALID.", "see below what the completions state"
    elif high < chance:
        meant = "a model that knew nothing would do better; are the letters shifted against the key?"
        step = _advise_shift(audit)
    else:
        meant = "guessing would do as well."
        step = "look at the prompt of a sample; else try a stronger model"
    yield Finding(
        "CHANCE_LEVEL",
        f"The accuracy of {format_short_percent(own.accuracy)} [{100 * low:.1f}, {100 * high:.1f}] is"
        f" {'below' if high < chance else 'not above'} the chance level of {format_short_percent(chance)}:"
        f" {meant}",
        step,
        {"accuracy": own.accuracy, "chance": chance},
    )


def _advise_shift(audit: TaskAudit) -> str:
    """Return what to look at when letters are systematically wrong: a key that is off by some places."""
    letters = sorted(audit.letters)
    for step in range(1, len(letters)):
        shifted = zip(letters, letters[step:] + letters[:step], strict=True)
        hits = sum(audit.letters[letter].get(other, 0) for letter, other in shifted)
        if hits > audit.n / 2:
            place = "one letter" if step == 1 else f"{step} letters"
            share = format_part(hits, audit.n)
            return f"with every truth moved by {place}, {share} would be right: check the key"
    return "check the truths with `answerkey audit-dataset` and some samples with `answerkey explain`"


def _find_format(audit: TaskAudit) -> Iterator[Finding]:
    own = audit.own
    if own is None or own.reach is None or own.accuracy is None:
        return
    low, high = own.reach
    # The literal rule is no advice: what it gains it gains by reading "Answer" as an A.
    others = [
        one
        for one in audit.readers
        if one.kind == "rule" and one.name != LITERAL and one.reads_half and one.accuracy is not None
        if not low <= one.accuracy <= high
    ]
    other = max(others, key=lambda one: (one.correct, one.name == STATED), default=None)
    if other is None or other.accuracy is None:
        return
    before, after = format_short_percent(own.accuracy), format_short_percent(other.accuracy)
    is_better = other.accuracy > own.accuracy
    if is_better:
        rule = "the first character" if audit.rule == FIRST else f"`{audit.rule}`"
        what = "the answers that the texts state" if other.name == STATED else f"`{other.name}`"
        sentence = f"{before} by {rule}; {after} by {what}: the difference is format, not knowledge."
        step = f"try `extraction: {other.name}`: `answerkey rescore RUN TASK_FILE` asks no model"
    else:
        start = f"{before} by `{audit.rule}`, {after} by `{other.name}`"
        sentence = f"{start}: part of the number rests on how the text is read."
        step = "look at some of them with `answerkey explain`, and state the rule wherever the number stands"
    numbers: dict[str, str | float] = {
        "rule": other.name,
        "accuracy": own.accuracy,
        "other": other.accuracy,
        "gains": other.gains,
    }
    yield Finding("FORMAT", sentence, step, numbers, other.gained if is_better else other.lost)
