"""Whether runs can be compared: finished, of the same task, on the same samples with the same truths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from answerkey.errors import Place, RunError, listing, suggest
from answerkey.evaluate import reopen_dataset, require_column
from answerkey.metrics.measure import label_rows, name_clusters, name_groups
from answerkey.runs import Run, TaskRun
from answerkey.spec import task_from_source
from answerkey.types import Notice
from answerkey.verbs.pairing import Outcomes

SHOWN = 3


def require_several(runs: Sequence[Run]) -> None:
    """Raise E508 for fewer than two runs."""
    if len(runs) <= 1:
        raise RunError("E508", "there is one run, and a comparison needs two", hint="name another run")


def require_complete(runs: Mapping[str, Run]) -> None:
    """Raise E508 for a run that is not complete."""
    for label, run in runs.items():
        if run.status != "complete":
            raise RunError(
                "E508",
                f"`{label}` is {run.status}: a share of the rest says nothing about the whole",
                where=Place(file=str(run.path)) if run.path else None,
                hint=f"`answerkey show {run.path}` says what is missing, and how to go on",
            )


def name_runs(runs: Sequence[Run]) -> list[str]:
    """Return what each run is called: the name of its folder, its path where that is not unique."""
    names = [run.path.name if run.path else run.key for run in runs]
    paths = [str(run.path) if run.path else run.key for run in runs]
    settled = [path if names.count(name) > 1 else name for name, path in zip(names, paths, strict=True)]
    numbered = [f"{name}-{place}" for place, name in enumerate(settled, 1)]
    return [one if settled.count(name) > 1 else name for name, one in zip(settled, numbered, strict=True)]


def choose_tasks(
    runs: Mapping[str, Run], key: str | None, notices: list[Notice]
) -> dict[str, dict[str, TaskRun]]:
    """Return the tasks to compare by the label of their run: those that all have, or the only one of each."""
    if key is not None:
        return {key: {label: _find_task(run, key, label) for label, run in runs.items()}}
    if all(len(run.tasks) == 1 for run in runs.values()):
        only = {label: next(iter(run.tasks.values())) for label, run in runs.items()}
        return {next(iter(only.values())).key: only}
    first, *others = runs.values()
    shared = [name for name in first.tasks if all(name in run.tasks for run in others)]
    if not shared:
        hint = "; ".join(f"`{label}` has {listing(run.tasks)}" for label, run in runs.items())
        raise RunError("E508", "the runs have no task in common", hint=hint)
    every = dict.fromkeys(name for run in runs.values() for name in run.tasks)
    left = [name for name in every if name not in shared]
    if left:
        notices.append(Notice(f"not all runs have the tasks {listing(left)}: they are left out"))
    return {name: {label: run.tasks[name] for label, run in runs.items()} for name in shared}


def _find_task(run: Run, key: str, label: str) -> TaskRun:
    if key not in run.tasks:
        hint = suggest(key, run.tasks) or f"tasks: {listing(run.tasks)}"
        raise RunError("E508", f"`{label}` has no task `{key}`", hint=hint)
    return run.tasks[key]


def require_alike(outcomes: Sequence[Outcomes], *, common: bool, notices: list[Notice]) -> None:
    """Raise E508 where samples or truths of two runs differ; tell what else does."""
    first, *others = outcomes
    for other in others:
        _require_same_samples(first, other, common=common)
        _require_same_truths(first, other)
        notices.extend(_tell_differences(first, other))


def _require_same_samples(first: Outcomes, other: Outcomes, *, common: bool) -> None:
    lacking = _list_missing(first, other)
    extra = _list_missing(other, first)
    if len(lacking) == first.table.height:
        raise RunError(
            "E508",
            f"`{first.label}` and `{other.label}` have no sample in common: they are of other datasets",
            hint=f"ids are such as {_show_ids(lacking)} there, and {_show_ids(extra)} here",
        )
    if (len(lacking) or len(extra)) and not common:
        sides = [
            f"{len(ids)} samples of `{owner.label}` are not in `{lacks.label}` (such as {_show_ids(ids)})"
            for ids, owner, lacks in ((lacking, first, other), (extra, other, first))
            if len(ids)
        ]
        hint = "`--common` compares on the samples that all runs have"
        raise RunError("E508", f"the runs have other samples: {', and '.join(sides)}", hint=hint)


def _list_missing(owner: Outcomes, other: Outcomes) -> pl.Series:
    return owner.table.join(other.table, on="sample_id", how="anti", maintain_order="left")["sample_id"]


def _show_ids(ids: pl.Series) -> str:
    return listing(ids.head(SHOWN).to_list())


def _require_same_truths(first: Outcomes, other: Outcomes) -> None:
    both = first.table.join(other.table, on="sample_id", maintain_order="left")
    known = both.filter(pl.col("truth").is_not_null() & pl.col("truth_right").is_not_null())
    differs = known.filter(pl.col("truth") != pl.col("truth_right"))
    if differs.height:
        sample, one, two = differs.select("sample_id", "truth", "truth_right").row(0)
        raise RunError(
            "E508",
            f"{differs.height} of {known.height} samples have another truth: `{sample}` is {one!r} in"
            f" `{first.label}` and {two!r} in `{other.label}`",
            hint="compare runs on the same dataset; with a corrected one, `answerkey rescore` the old run",
        )
    if not known.height and _fingerprint(first) != _fingerprint(other):
        raise RunError(
            "E508",
            f"`{first.label}` and `{other.label}` are of other datasets, and their scorers know no truths by"
            " which the samples could be matched",
            hint="compare runs on the same dataset",
        )


def _fingerprint(outcomes: Outcomes) -> object:
    return (outcomes.task_run.manifest.get("dataset") or {}).get("fingerprint")


def _describe_asking(outcomes: Outcomes) -> object:
    """Return what decides the values of a task: what is asked, how often, and the rule that scores it."""
    definition = outcomes.task_run.source["task"]["definition"]
    rules = [one for one in definition["scorers"] if one.get("key") == outcomes.scorer]
    words = {"metrics", "display_name", "key"}
    return (
        definition.get("solver"),
        definition.get("trials"),
        [{name: value for name, value in one.items() if name not in words} for one in rules],
    )


def _tell_differences(first: Outcomes, other: Outcomes) -> list[Notice]:
    names = f"`{first.label}` and `{other.label}`"
    found = []
    if _fingerprint(first) != _fingerprint(other):
        found.append(f"the datasets of {names} differ, though samples and truths are the same")
    if _describe_asking(first) != _describe_asking(other):
        found.append(f"the tasks of {names} differ: a difference may be of the task, not of the model")
    if (first.scorer, first.value) != (other.scorer, other.value):
        values = [f"`{one.value}` of `{one.scorer}` in `{one.label}`" for one in (first, other)]
        found.append(f"compared are {' and '.join(values)}")
    return [Notice(text) for text in found]


def label_samples(outcomes: Outcomes, column: str, *, as_clusters: bool = False) -> pl.DataFrame:
    """Return `sample_id` and `label` from the dataset of a run; E505 when it is gone, E206 without column."""
    dataset = reopen_dataset(outcomes.task_run)
    require_column(column, dataset.columns, outcomes.task_run)
    samples = dataset.samples([column])
    labels = label_rows(samples, column)
    named = name_clusters(labels, samples.ids) if as_clusters else name_groups(labels)
    return pl.DataFrame([samples.ids.cast(pl.String).alias("sample_id"), named.alias("label")])


def find_cluster_column(outcomes: Sequence[Outcomes]) -> str | None:
    """Return the column by which the first metric of every task clusters samples; None where they differ."""
    columns = {_read_cluster_column(one.task_run) for one in outcomes}
    return columns.pop() if len(columns) == 1 else None


def _read_cluster_column(task_run: TaskRun) -> str | None:
    metrics = task_from_source(task_run.source["task"]).main_step.metrics
    return metrics[0].design.cluster_by if metrics else None


def find_category_column(outcomes: Outcomes) -> str | None:
    """Return the column that holds the categories of a run's samples."""
    return (outcomes.task_run.manifest.get("dataset") or {}).get("category")


def is_same_run(first: Run, second: Run) -> bool:
    """Return whether two runs lie in the same folder."""
    if first.path is None or second.path is None:
        return first is second
    return first.path.resolve() == second.path.resolve()
