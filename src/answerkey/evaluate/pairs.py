"""Runs on the same samples: which are comparable, and how they differ sample by sample."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import polars as pl

from answerkey.errors import Place, RunError, listing, suggest
from answerkey.evaluate.reopen import reopen_dataset, require_column
from answerkey.metrics import Mean
from answerkey.metrics.base import exclusion_reason, read_number
from answerkey.metrics.intervals import average
from answerkey.metrics.paired import Difference, Pair, measure_difference
from answerkey.metrics.trials import label_rows, name_clusters, name_groups
from answerkey.runs import Run, RunPlace, TaskRun, load_run, name_answerer
from answerkey.spec import ScoringStep, Task, task_from_source
from answerkey.types import Notice

#: Where scorers keep what the sample's right answer is.
TRUTH_FIELDS = ("ground_truth_option", "ground_truth_choice", "answer_gt")
#: Where scores of a task with `choice_order` say which sample they are of, and which are for a
#: prior only.
BASE_FIELD, EXTRA_FIELD = "base_sample_id", "is_extra"
NO_VALUE = "null"
#: How many sample ids an error shows.
MAX_SHOWN_IDS = 3
_NEAR = 1e-9

AnyRun = Run | str | RunPlace
#: A task of each run, by the label of the run.
LabelledTasks = dict[str, tuple[Run, TaskRun]]


@dataclass(frozen=True)
class PairedOutcomes:
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

    def describe_value(self) -> str:
        """Return which value of the run is compared."""
        return f"`{self.value}` of `{self.scorer}` in `{self.label}`"

    @property
    def chance(self) -> float:
        """The mean variance among the trials of a sample; 0 where each was asked once."""
        if self.num_trials == 1:
            return 0.0
        has_value = pl.col("value").is_not_null()
        variance = self.table.filter(has_value)["chance"].mean()
        return 0.0 if variance is None else float(str(variance))


@dataclass(frozen=True)
class ComparedRun:
    """One of the runs: its label, its folder, its model, and the value that is compared.

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

    outcomes: tuple[PairedOutcomes, ...]
    table: pl.DataFrame
    cluster_by: str | None = None

    @property
    def runs(self) -> tuple[ComparedRun, ...]:
        """The runs, each with its mean over the samples of the table."""
        return tuple(_describe(outcomes, self.table) for outcomes in self.outcomes)

    def pair_up(self, first: str, second: str) -> pl.DataFrame:
        """Return the samples that two runs have a value for, as `first` and `second`; E508 without
        any.
        """
        columns = {f"value {first}": "first", f"value {second}": "second"}
        pairs = self.table.rename(columns).drop_nulls(["first", "second"])
        if not pairs.height:
            message = f"`{first}` and `{second}` have no sample that both have a value for"
            raise RunError("E508", message, hint="`answerkey show` says why samples have none")
        return pairs

    def measure(self, pairs: pl.DataFrame) -> Difference:
        """Return the mean of `first` minus `second`, with a test that allows for clusters."""
        clusters: dict[str, list[Pair]] | None = None
        if "cluster" in pairs.columns:
            clusters = {}
            counts = pairs.group_by("cluster", "first", "second").len().sort("cluster")
            for label, first, second, count in counts.iter_rows():
                clusters.setdefault(label, []).append((first, second, count))
        counted = pairs.group_by("first", "second").len().rows()
        return measure_difference(counted, clusters)


def pair_samples(
    tasks: LabelledTasks,
    notices: list[Notice],
    *,
    scorer: str | None = None,
    value: str | None = None,
    cluster_by: str | None = None,
    common: bool = False,
) -> Pairing:
    """Return a task of several runs, by their labels, joined by sample id.

    E508 where samples or truths differ; with `common`, samples that not all runs have are left out.
    Clusters are those of the task's first metric, unless a column is named.
    """
    read = partial(read_outcomes, scorer=scorer, value=value)
    outcomes = [read(*pair, label=label) for label, pair in tasks.items()]
    require_alike(outcomes, common=common, notices=notices)
    if cluster_by is None:
        cluster_by = _find_cluster_column(outcomes)
    table = outcomes[0].table.select("sample_id")
    if cluster_by is not None:
        labels = label_samples(outcomes[0], cluster_by, as_clusters=True)
        clusters = labels.rename({"label": "cluster"})
        table = table.join(
            clusters,
            "sample_id",
            "left",
            maintain_order="left",
        )
    for run_outcomes in outcomes:
        names = {name: f"{name} {run_outcomes.label}" for name in ("value", "reason")}
        columns = run_outcomes.table.select("sample_id", "value", "reason").rename(names)
        table = table.join(
            columns,
            "sample_id",
            "inner",
            maintain_order="left",
        )
    return Pairing(tuple(outcomes), table, cluster_by)


def _find_cluster_column(outcomes: Sequence[PairedOutcomes]) -> str | None:
    """Return the column by which the first metric of every run puts samples together."""
    columns: set[str | None] = set()
    for run_outcomes in outcomes:
        task = task_from_source(run_outcomes.task_run.source["task"])
        metrics = task.main_step.metrics[:1]
        columns.update([metric.design.cluster_by for metric in metrics] or [None])
    return columns.pop() if len(columns) == 1 else None


def _describe(outcomes: PairedOutcomes, table: pl.DataFrame) -> ComparedRun:
    values = table[f"value {outcomes.label}"].drop_nulls()
    # A share is 0 or 1 for each sample, or the mean of trials that are.
    trials = outcomes.num_trials
    right = values.unique() * trials
    is_whole = (right - right.round()).abs() < _NEAR
    is_share = (is_whole & right.is_between(0, trials)).all()
    path = outcomes.run.path
    return ComparedRun(
        label=outcomes.label,
        path=None if path is None else str(path),
        model=name_answerer(outcomes.task_run.manifest),
        scorer=outcomes.scorer,
        value=outcomes.value,
        mean=average(values.to_list()) if len(values) else None,
        n=len(values),
        is_share=is_share,
    )


def label_samples(
    outcomes: PairedOutcomes,
    column: str,
    *,
    as_clusters: bool = False,
) -> pl.DataFrame:
    """Return `sample_id` and `label` from the dataset of a run.

    E505 when it is gone, E206 without column.
    """
    dataset = reopen_dataset(outcomes.task_run)
    require_column(column, dataset.columns, outcomes.task_run)
    samples = dataset.samples()
    labels = label_rows(samples, column)
    names = name_groups(labels)
    if as_clusters:
        names = name_clusters(labels, samples.ids)
    ids = samples.ids.cast(pl.String)
    return pl.DataFrame({"sample_id": ids, "label": names})


# Which runs can be compared


def label_runs(
    runs: Sequence[AnyRun],
    baseline: AnyRun | None = None,
    *,
    fewest: int = 2,
) -> dict[str, Run]:
    """Return complete runs by label, with the baseline once and last; E508 for too few."""
    loaded = list(map(load_run, runs))
    if baseline is not None:
        base = load_run(baseline)
        loaded = [run for run in loaded if not is_same_run(run, base)]
        loaded.append(base)
    if len(loaded) < fewest:
        message = "there is one run, and a comparison needs two"
        raise RunError("E508", message, hint="name another run")
    labelled = dict(zip(name_runs(loaded), loaded, strict=True))
    for label, run in labelled.items():
        if run.status != "complete":
            message = f"`{label}` is {run.status}: a share of the rest says nothing about the whole"
            hint = f"`answerkey show {run.path}` says what is missing, and how to continue"
            where = Place(file=str(run.path)) if run.path else None
            raise RunError("E508", message, where=where, hint=hint)
    return labelled


def name_runs(runs: Sequence[Run]) -> list[str]:
    """Return a label for each run: the name of its folder, numbered if it is not unique."""
    folders = [run.path.name if run.path else run.key for run in runs]
    names = []
    for number, folder in enumerate(folders, start=1):
        is_unique = folders.count(folder) == 1
        names.append(folder if is_unique else f"{folder}-{number}")
    return names


def is_same_run(first: Run, second: Run) -> bool:
    """Return whether two runs lie in the same folder."""
    if first.path is None or second.path is None:
        return first is second
    return first.path.resolve() == second.path.resolve()


def choose_tasks(
    runs: Mapping[str, Run],
    key: str | None,
    notices: list[Notice],
) -> dict[str, LabelledTasks]:
    """Return the tasks to compare by the label of their run: those that all have, or the only one
    of each.
    """
    if key is None and all(len(run.tasks) == 1 for run in runs.values()):
        pairs: LabelledTasks = {}
        for label, run in runs.items():
            [task_run] = run.tasks.values()
            pairs[label] = (run, task_run)
        _, first_task = next(iter(pairs.values()))
        return {first_task.key: pairs}
    for label, run in runs.items():
        if key is not None and key not in run.tasks:
            hint = suggest(key, run.tasks) or f"tasks: {listing(run.tasks)}"
            raise RunError("E508", f"`{label}` has no task `{key}`", hint=hint)
    chosen: dict[str, LabelledTasks] = {}
    for name in [key] if key is not None else _find_shared_tasks(runs, notices):
        chosen[name] = {label: (run, run.tasks[name]) for label, run in runs.items()}
    return chosen


def _find_shared_tasks(runs: Mapping[str, Run], notices: list[Notice]) -> list[str]:
    """Return the tasks that all runs have; E508 without any."""
    counts = Counter[str]()
    for run in runs.values():
        counts.update(run.tasks.keys())
    shared = [name for name, count in counts.items() if count == len(runs)]
    if not shared:
        lists = [f"`{label}` has {listing(run.tasks)}" for label, run in runs.items()]
        raise RunError("E508", "the runs have no task in common", hint="; ".join(lists))
    left_out = counts.keys() - set(shared)
    if left_out:
        text = f"not all runs have the tasks {listing(sorted(left_out))}: they are left out"
        notices.append(Notice(text))
    return shared


def require_alike(
    outcomes: Sequence[PairedOutcomes],
    *,
    common: bool,
    notices: list[Notice],
) -> None:
    """Raise E508 if samples or truths of two runs differ; add notices of other differences."""
    first = outcomes[0]
    for second in outcomes[1:]:
        _require_same_samples(first, second, common=common)
        num_truths = _require_same_truths(first, second)
        names = f"`{first.label}` and `{second.label}`"
        dataset = first.task_run.manifest["dataset"]
        second_dataset = second.task_run.manifest["dataset"]
        if dataset["fingerprint"] != second_dataset["fingerprint"]:
            if not num_truths:
                reason = "their scorers know no truths by which the samples could be matched"
                message = f"{names} are of other datasets, and {reason}"
                raise RunError("E508", message, hint="compare runs on the same dataset")
            text = f"the datasets of {names} differ; their samples are matched by id and truth"
            notices.append(Notice(text))
        if _describe_task(first) != _describe_task(second):
            text = f"the tasks of {names} differ: a difference may be of the task, not of the model"
            notices.append(Notice(text))
        if (first.scorer, first.value) != (second.scorer, second.value):
            text = f"compared are {first.describe_value()} and {second.describe_value()}"
            notices.append(Notice(text))


def _require_same_samples(
    first: PairedOutcomes,
    second: PairedOutcomes,
    *,
    common: bool,
) -> None:
    """Raise E508 unless two runs have the same samples; with `common`, unless they share some."""
    differences = []
    for owner, lacking in ((first, second), (second, first)):
        missing = owner.table.join(
            lacking.table,
            "sample_id",
            "anti",
            maintain_order="left",
        )
        if missing.height:
            ids = listing(missing["sample_id"].head(MAX_SHOWN_IDS).to_list())
            samples = f"{missing.height} samples of `{owner.label}`"
            differences.append(f"{samples} are not in `{lacking.label}` (such as {ids})")
        if missing.height == owner.table.height:
            common = False  # there is no sample in common
    if differences and not common:
        message = f"the runs have other samples: {', and '.join(differences)}"
        hint = "`--common` compares on the samples that all runs have, if there are any"
        raise RunError("E508", message, hint=hint)


def _require_same_truths(first: PairedOutcomes, second: PairedOutcomes) -> int:
    """Raise E508 where truths of two runs differ; return how many samples have one in each."""
    joined = first.table.join(second.table, on="sample_id", maintain_order="left")
    truths = joined.drop_nulls(["truth", "truth_right"])
    differing = truths.filter(pl.col("truth") != pl.col("truth_right"))
    if differing.height:
        sample, truth, other_truth = differing.select("sample_id", "truth", "truth_right").row(0)
        hint = (
            "compare runs on the same dataset; with a corrected one, `answerkey rescore` the old "
            "run"
        )
        message = (
            f"{differing.height} of {truths.height} samples have another truth: `{sample}` is "
            f"{truth!r} in `{first.label}` and {other_truth!r} in `{second.label}`"
        )
        raise RunError("E508", message, hint=hint)
    return truths.height


def _describe_task(outcomes: PairedOutcomes) -> object:
    """Return the settings that decide a task's values: prompts, trials, and the scoring rule."""
    definition = outcomes.task_run.source["task"]["definition"]
    rules = []
    for scorer in definition["scorers"]:
        if scorer.get("key") == outcomes.scorer:
            shown = {
                "metrics": None,
                "display_name": None,
                "key": None,
            }
            rules.append({**scorer, **shown})
    return definition.get("solver"), definition.get("trials"), rules


# The result of each sample


def read_outcomes(
    run: Run,
    task_run: TaskRun,
    *,
    label: str,
    scorer: str | None = None,
    value: str | None = None,
) -> PairedOutcomes:
    """Return the result of each sample of a task, by its main scorer and value or those named."""
    task = task_from_source(task_run.source["task"])
    step = _find_step(task, scorer, label)
    name = value or step.scorer.main_value or _find_mean_field(step, label)
    encoded = task_run.manifest.get("encoded") or {}
    is_encoded = name in encoded.get(step.key, ())
    parts = []
    for part in task_run.stored_scores:
        frame = part[step.key].struct.unnest()
        table = _read_part(
            part["sample_id"],
            frame,
            name,
            is_encoded=is_encoded,
        )
        if table is not None:
            parts.append(table)
    if not parts:
        message = f"scorer `{step.key}` of `{label}` has no value `{name}`"
        values = listing(step.scorer.value_types or ())
        raise RunError("E508", message, hint=f"values of the scorer: {values}")
    table = pl.concat(parts)
    if task.num_trials > 1 or task.choice_order is not None:
        table = table.group_by("sample_id", maintain_order=True).agg(
            pl.col("value").mean(),
            pl.col("value").var().alias("chance"),
            pl.col("truth").drop_nulls().first(),
            pl.col("reason").drop_nulls().first(),
        )
    # A sample has a value only where all its rows count.
    is_counted = pl.col("reason").is_null()
    table = table.with_columns(value=pl.when(is_counted).then(pl.col("value")))
    # Differences between orders of the options are not chance; only trials of one prompt show that.
    num_trials = 1 if task.choice_order else task.num_trials
    return PairedOutcomes(
        label,
        run,
        task_run,
        step.key,
        name,
        table,
        num_trials,
    )


def _find_mean_field(step: ScoringStep, label: str) -> str:
    """Return what the first `mean` of a scorer without a main value averages; E508 without one."""
    for metric in step.metrics:
        if isinstance(metric.metric, Mean):
            return metric.metric.field.partition(".")[0]
    message = f"scorer `{step.key}` of `{label}` has no main value to compare"
    raise RunError("E508", message, hint="name one of its values with `--value`")


def _find_step(task: Task, scorer: str | None, label: str) -> ScoringStep:
    """Return the scorer with this key, or the main one; E508 when the task has none such."""
    if scorer is None:
        return task.main_step
    for step in task.scoring:
        if step.key == scorer:
            return step
    keys = [step.key for step in task.scoring]
    hint = suggest(scorer, keys) or f"scorers of the task: {listing(keys)}"
    message = f"task `{task.key}` of `{label}` has no scorer `{scorer}`"
    raise RunError("E508", message, hint=hint)


def read_numbers(column: pl.Series, *, is_encoded: bool) -> pl.Series:
    """Return a value of scores as floats; null where it is no finite number."""
    if column.dtype.is_numeric() or column.dtype == pl.Boolean:
        numbers = column.cast(pl.Float64)
        finite = pl.when(numbers.is_finite()).then(numbers)
        return pl.select(finite).to_series()
    values: dict[str, float | None] = {}
    if is_encoded:
        for text in column.unique().drop_nulls():
            values[text] = read_number(json.loads(text))
    return pl.Series([values.get(cell) for cell in column], dtype=pl.Float64)


def _read_part(
    ids: pl.Series,
    frame: pl.DataFrame,
    name: str,
    *,
    is_encoded: bool,
) -> pl.DataFrame | None:
    """Return the rows of one part of the scores; None when the scorer has no such value in it."""
    values = frame["values"].struct.unnest()
    metadata = frame["metadata"].struct.unnest()
    if name not in values.columns:
        return None
    owners = ids
    if BASE_FIELD in metadata.columns:
        owners = metadata[BASE_FIELD]
    truths = pl.Series([None] * len(ids), dtype=pl.String)
    for truth_field in reversed(TRUTH_FIELDS):
        if truth_field in metadata.columns:
            truths = metadata[truth_field].cast(pl.String)
    columns = {
        "sample_id": owners.cast(pl.String),
        "value": read_numbers(values[name], is_encoded=is_encoded),
        "truth": truths,
        "reason": frame.select(exclusion_reason()).to_series(),
    }
    has_no_value = pl.col("value").is_null()
    missing = pl.when(has_no_value).then(pl.lit(NO_VALUE))
    table = pl.DataFrame(columns).with_columns(reason=pl.coalesce("reason", missing))
    if EXTRA_FIELD not in metadata.columns:
        return table
    return table.filter(~metadata[EXTRA_FIELD].fill_null(value=False))
