"""Runs on the same samples: which of them can be compared, what each sample came to, how two runs
differ.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from answerkey.errors import Place, RunError, listing, suggest
from answerkey.evaluate.reopen import reopen_dataset, require_column
from answerkey.metrics import Mean
from answerkey.metrics.base import name_left_out, read_number
from answerkey.metrics.exact import divide, sum_exactly
from answerkey.metrics.paired import Difference, Pair, measure_difference
from answerkey.metrics.rows import label_rows, name_clusters, name_groups
from answerkey.runs import Run, RunPlace, TaskRun, list_forced, load_run, name_answerer
from answerkey.spec import task_from_source
from answerkey.types import EMPTY_STRUCT_FIELD, Notice

#: Where scorers keep what the sample's right answer is.
TRUTH_FIELDS = ("ground_truth_option", "ground_truth_choice", "answer_gt")
#: Where scores of a task with `choice_order` say which sample they are of, and which are for a
#: prior only.
BASE_FIELD, EXTRA_FIELD = "base_sample_id", "is_extra"
NO_VALUE = "null"
#: How many sample ids an error shows.
SHOWN = 3
_NEAR = 1e-9

AnyRun = Run | str | RunPlace


@dataclass(frozen=True)
class Outcomes:
    """The values of one task, one row per sample.

    Columns of `table`: `sample_id`, `value` (a float; the mean of the trials), `truth` (text, null
    where the scorer knows none), `reason` (why there is no value; else null). `label` says which
    run it is.
    """

    label: str
    run: Run
    task_run: TaskRun
    scorer: str
    value: str
    table: pl.DataFrame
    num_trials: int = 1

    @property
    def chance(self) -> float:
        """The mean variance among the trials of a sample; 0 where each was asked once."""
        if self.num_trials == 1:
            return 0.0
        found = self.table.filter(pl.col("value").is_not_null())["chance"].mean()
        return 0.0 if found is None else float(str(found))


@dataclass(frozen=True)
class ComparedRun:
    """One of the runs: what it is called here, where it lies, who answered, and which value is
    compared.

    `mean` is that of the `n` samples that all runs have and this one has a value for.
    """

    label: str
    path: str | None
    model: str
    scorer: str
    value: str
    mean: float | None
    n: int
    is_share: bool = True


@dataclass(frozen=True)
class Pairing:
    """One task of several runs, sample by sample.

    Columns of `table`: `sample_id`; `cluster` where the column `cluster_by` puts samples together;
    for each run `value LABEL` and `reason LABEL`.
    """

    outcomes: tuple[Outcomes, ...]
    table: pl.DataFrame
    cluster_by: str | None = None
    is_corrected: bool = True

    @property
    def runs(self) -> tuple[ComparedRun, ...]:
        """The runs, each with its mean over the samples of the table."""
        return tuple(_describe(one, self.table) for one in self.outcomes)

    def pair_up(self, first: str, second: str) -> pl.DataFrame:
        """Return the samples that two runs have a value for, as `first` and `second`; E508 without
        any.
        """
        columns = {f"value {first}": "first", f"value {second}": "second"}
        both = self.table.rename(columns).drop_nulls(["first", "second"])
        if not both.height:
            message = f"`{first}` and `{second}` have no sample that both have a value for"
            raise RunError("E508", message, hint="`answerkey show` says why samples have none")
        return both

    def measure(self, both: pl.DataFrame) -> Difference:
        """Return the mean of `first` minus `second`, with a test that allows for clusters."""
        clusters: dict[str, list[Pair]] | None = None
        if "cluster" in both.columns:
            clusters, keys = {}, ("cluster", "first", "second")
            for label, one, other, count in both.group_by(*keys).len().sort("cluster").iter_rows():
                clusters.setdefault(label, []).append((one, other, count))
        pairs = both.group_by("first", "second").len().rows()
        return measure_difference(pairs, clusters, is_corrected=self.is_corrected)


def pair_samples(
    tasks: Mapping[str, tuple[Run, TaskRun]],
    notices: list[Notice],
    *,
    scorer: str | None = None,
    value: str | None = None,
    cluster_by: str | None = None,
    is_corrected: bool = True,
    common: bool = False,
) -> Pairing:
    """Return a task of several runs, by their labels, joined by sample id.

    E508 where samples or truths differ; with `common`, samples that not all runs have are left out.
    Clusters are those of the task's first metric, unless a column is named.
    """
    outcomes = tuple(
        read_outcomes(run, one, label=label, scorer=scorer, value=value)
        for label, (run, one) in tasks.items()
    )
    require_alike(outcomes, common=common, notices=notices)
    if cluster_by is None:
        steps = [task_from_source(one.task_run.source["task"]).main_step for one in outcomes]
        columns = {step.metrics[0].design.cluster_by if step.metrics else None for step in steps}
        cluster_by = columns.pop() if len(columns) == 1 else None
    table = outcomes[0].table.select("sample_id")
    if cluster_by is not None:
        clusters = label_samples(outcomes[0], cluster_by, as_clusters=True).rename(
            {"label": "cluster"}
        )
        table = table.join(clusters, on="sample_id", how="left", maintain_order="left")
    for one in outcomes:
        columns_of_run = {name: f"{name} {one.label}" for name in ("value", "reason")}
        own = one.table.select("sample_id", "value", "reason").rename(columns_of_run)
        table = table.join(own, on="sample_id", how="inner", maintain_order="left")
    return Pairing(outcomes, table, cluster_by, is_corrected)


def _describe(one: Outcomes, table: pl.DataFrame) -> ComparedRun:
    counts = table.group_by(pl.col(f"value {one.label}").alias("value")).len().drop_nulls().rows()
    total, _ = sum_exactly(counts)
    n = sum(count for _, count in counts)
    # Right or wrong, or the mean of as many trials as are either.
    trials = one.num_trials
    parts = [value * trials for value, _ in counts]
    return ComparedRun(
        label=one.label,
        path=None if one.run.path is None else str(one.run.path),
        model=name_answerer(one.task_run.manifest),
        scorer=one.scorer,
        value=one.value,
        mean=divide(total, n) if n else None,
        n=n,
        is_share=all(0 <= part <= trials and abs(part - round(part)) < _NEAR for part in parts),
    )


def label_samples(outcomes: Outcomes, column: str, *, as_clusters: bool = False) -> pl.DataFrame:
    """Return `sample_id` and `label` from the dataset of a run.

    E505 when it is gone, E206 without column.
    """
    dataset = reopen_dataset(outcomes.task_run)
    require_column(column, dataset.columns, outcomes.task_run)
    samples = dataset.samples([column])
    labels = label_rows(samples, column)
    named = name_clusters(labels, samples.ids) if as_clusters else name_groups(labels)
    return pl.DataFrame({"sample_id": samples.ids.cast(pl.String), "label": named})


# Which runs can be compared


def label_runs(
    runs: Sequence[AnyRun], baseline: AnyRun | None = None, *, fewest: int = 2
) -> dict[str, Run]:
    """Return complete runs by what each is called, the baseline last and once; E508 for too few."""
    found = list(map(load_run, runs))
    if baseline is not None:
        base = load_run(baseline)
        found = [*(one for one in found if not is_same_run(one, base)), base]
    if len(found) < fewest:
        raise RunError(
            "E508", "there is one run, and a comparison needs two", hint="name another run"
        )
    labelled = dict(zip(name_runs(found), found, strict=True))
    for label, run in labelled.items():
        if run.status != "complete":
            message = f"`{label}` is {run.status}: a share of the rest says nothing about the whole"
            hint = f"`answerkey show {run.path}` says what is missing, and how to go on"
            raise RunError(
                "E508", message, where=Place(file=str(run.path)) if run.path else None, hint=hint
            )
    return labelled


def name_runs(runs: Sequence[Run]) -> list[str]:
    """Return what each run is called: the name of its folder, its path where that is not unique."""
    names = [run.path.name if run.path else run.key for run in runs]
    paths = [str(run.path) if run.path else run.key for run in runs]
    unique = [
        path if names.count(name) > 1 else name for name, path in zip(names, paths, strict=True)
    ]
    return [
        f"{name}-{place}" if unique.count(name) > 1 else name
        for place, name in enumerate(unique, start=1)
    ]


def is_same_run(first: Run, second: Run) -> bool:
    """Return whether two runs lie in the same folder."""
    if first.path is None or second.path is None:
        return first is second
    return first.path.resolve() == second.path.resolve()


def choose_tasks(
    runs: Mapping[str, Run], key: str | None, notices: list[Notice]
) -> dict[str, dict[str, tuple[Run, TaskRun]]]:
    """Return the tasks to compare by the label of their run: those that all have, or the only one
    of each.
    """
    for label, run in runs.items() if key is not None else ():
        if key not in run.tasks:
            hint = suggest(str(key), run.tasks) or f"tasks: {listing(run.tasks)}"
            raise RunError("E508", f"`{label}` has no task `{key}`", hint=hint)
    if key is None and all(len(run.tasks) == 1 for run in runs.values()):
        only = {label: (run, next(iter(run.tasks.values()))) for label, run in runs.items()}
        return {next(iter(only.values()))[1].key: only}
    every = dict.fromkeys(name for run in runs.values() for name in run.tasks)
    shared = [name for name in every if all(name in run.tasks for run in runs.values())]
    if not shared:
        hint = "; ".join(f"`{label}` has {listing(run.tasks)}" for label, run in runs.items())
        raise RunError("E508", "the runs have no task in common", hint=hint)
    if key is None and len(shared) < len(every):
        left = [name for name in every if name not in shared]
        notices.append(Notice(f"not all runs have the tasks {listing(left)}: they are left out"))
    chosen = shared if key is None else [key]
    return {name: {label: (run, run.tasks[name]) for label, run in runs.items()} for name in chosen}


def require_alike(outcomes: Sequence[Outcomes], *, common: bool, notices: list[Notice]) -> None:
    """Raise E508 where samples or truths of two runs differ; notice what else does."""
    first, *others = outcomes
    for other in others:
        names, is_other = (
            f"`{first.label}` and `{other.label}`",
            _fingerprint(first) != _fingerprint(other),
        )
        lacking, extra = (
            one.table.join(two.table, on="sample_id", how="anti", maintain_order="left")[
                "sample_id"
            ]
            for one, two in ((first, other), (other, first))
        )
        shown = [listing(ids.head(SHOWN).to_list()) for ids in (lacking, extra)]
        if len(lacking) == first.table.height:
            message = f"{names} have no sample in common: they are of other datasets"
            hint = f"ids are such as {shown[0]} there, and {shown[1]} here"
            raise RunError("E508", message, hint=hint)
        if (len(lacking) or len(extra)) and not common:
            sides = ((lacking, first, other, shown[0]), (extra, other, first, shown[1]))
            told = ", and ".join(
                f"{len(ids)} samples of `{owner.label}` are not in `{lacks.label}` "
                f"(such as {examples})"
                for ids, owner, lacks, examples in sides
                if len(ids)
            )
            hint = "`--common` compares on the samples that all runs have"
            raise RunError("E508", f"the runs have other samples: {told}", hint=hint)
        both = first.table.join(other.table, on="sample_id", maintain_order="left")
        known = both.drop_nulls(["truth", "truth_right"])
        differs = known.filter(pl.col("truth") != pl.col("truth_right"))
        if differs.height:
            sample, one, two = differs.select("sample_id", "truth", "truth_right").row(0)
            hint = (
                "compare runs on the same dataset; with a corrected one, `answerkey "
                "rescore` the old run"
            )
            such = f"`{sample}` is {one!r} in `{first.label}` and {two!r} in `{other.label}`"
            message = f"{differs.height} of {known.height} samples have another truth: {such}"
            raise RunError("E508", message, hint=hint)
        if not known.height and is_other:
            why = "their scorers know no truths by which the samples could be matched"
            message = f"{names} are of other datasets, and {why}"
            raise RunError("E508", message, hint="compare runs on the same dataset")
        if is_other:
            notices.append(
                Notice(f"the datasets of {names} differ, though samples and truths are the same")
            )
        if _describe_task(first) != _describe_task(other):
            text = f"the tasks of {names} differ: a difference may be of the task, not of the model"
            notices.append(Notice(text))
        forced = [list_forced(one.task_run.manifest) for one in (first, other)]
        if forced[0] != forced[1]:
            kinds = " and ".join(sorted({*forced[0], *forced[1]}))
            text = f"{names} differ in their {kinds}: a difference may be of that, not of the model"
            notices.append(Notice(text))
        if (first.scorer, first.value) != (other.scorer, other.value):
            values = [f"`{one.value}` of `{one.scorer}` in `{one.label}`" for one in (first, other)]
            notices.append(Notice(f"compared are {' and '.join(values)}"))


def _fingerprint(outcomes: Outcomes) -> object:
    return outcomes.task_run.manifest["dataset"]["fingerprint"]


def _describe_task(outcomes: Outcomes) -> object:
    """Return what decides the values of a task: what is asked, how often, and the rule that scores
    it.
    """
    definition = outcomes.task_run.source["task"]["definition"]
    words = {"metrics", "display_name", "key"}
    rules = [
        {name: value for name, value in one.items() if name not in words}
        for one in definition["scorers"]
        if one.get("key") == outcomes.scorer
    ]
    return definition.get("solver"), definition.get("trials"), rules


# What each sample came to


def read_outcomes(
    run: Run, task_run: TaskRun, *, label: str, scorer: str | None = None, value: str | None = None
) -> Outcomes:
    """Return what the samples of a task came to, by its main scorer and value or by those that are
    named.
    """
    task = task_from_source(task_run.source["task"])
    steps = {step.key: step for step in task.scoring}
    if scorer is not None and scorer not in steps:
        hint = suggest(scorer, steps) or f"scorers of the task: {listing(steps)}"
        raise RunError(
            "E508", f"task `{task.key}` of `{label}` has no scorer `{scorer}`", hint=hint
        )
    step = task.main_step if scorer is None else steps[scorer]
    means = [
        one.metric.field.partition(".")[0] for one in step.metrics if isinstance(one.metric, Mean)
    ]
    name = value or step.scorer.main_value or next(iter(means), None)
    if name is None:
        message = f"scorer `{step.key}` of `{label}` has no main value to compare"
        raise RunError("E508", message, hint="name one of its values with `--value`")
    is_encoded = name in (task_run.manifest.get("encoded") or {}).get(step.key, ())
    parts = [
        _read_part(part["sample_id"], part[step.key].struct.unnest(), name, is_encoded=is_encoded)
        for part in task_run.score_parts()
    ]
    found = [part for part in parts if part is not None]
    if not found:
        first = next(iter(task_run.score_parts()), None)
        fields = [] if first is None else first[step.key].struct.field("values").struct.fields
        known = [one for one in fields if one != EMPTY_STRUCT_FIELD]
        hint = suggest(name, known) or f"values: {listing(known)}"
        raise RunError("E508", f"scorer `{step.key}` of `{label}` has no value `{name}`", hint=hint)
    table = pl.concat(found)
    if task.num_trials > 1 or task.choice_order is not None:
        table = table.group_by("sample_id", maintain_order=True).agg(
            pl.col("value").mean(),
            pl.col("value").var().alias("chance"),
            pl.col("truth").drop_nulls().first(),
            pl.col("reason").drop_nulls().first(),
        )
    # A sample has a value only where all its rows count.
    table = table.with_columns(value=pl.when(pl.col("reason").is_null()).then(pl.col("value")))
    # What the order of the options changes is no chance: only trials of one and the same prompt
    # tell of that.
    num_trials = 1 if task.choice_order else task.num_trials
    return Outcomes(label, run, task_run, step.key, name, table, num_trials)


def read_numbers(column: pl.Series, *, is_encoded: bool) -> pl.Series:
    """Return a value of scores as floats; null where it is no finite number."""
    if column.dtype.is_numeric() or column.dtype == pl.Boolean:
        numbers = column.cast(pl.Float64)
        return pl.select(pl.when(numbers.is_finite()).then(numbers)).to_series()
    found = {text: read_number(json.loads(text)) for text in column.unique() if text and is_encoded}
    return pl.Series([found.get(text) for text in column], dtype=pl.Float64)


def _read_part(
    ids: pl.Series, frame: pl.DataFrame, name: str, *, is_encoded: bool
) -> pl.DataFrame | None:
    """Return the rows of one part of the scores; None when the scorer has no such value in it."""
    values, metadata = frame["values"].struct.unnest(), frame["metadata"].struct.unnest()
    if name not in values.columns:
        return None
    truth = next((one for one in TRUTH_FIELDS if one in metadata.columns), None)
    owners = metadata[BASE_FIELD] if BASE_FIELD in metadata.columns else ids
    truths = [None] * len(ids) if truth is None else metadata[truth].cast(pl.String)
    table = pl.DataFrame(
        {
            "sample_id": owners.cast(pl.String),
            "value": read_numbers(values[name], is_encoded=is_encoded),
            "truth": pl.Series(truths, dtype=pl.String),
            "reason": frame.select(name_left_out()).to_series(),
        }
    )
    missing = pl.when(pl.col("value").is_null()).then(pl.lit(NO_VALUE))
    table = table.with_columns(reason=pl.coalesce("reason", missing))
    if EXTRA_FIELD not in metadata.columns:
        return table
    return table.filter(~metadata[EXTRA_FIELD].fill_null(value=False))
