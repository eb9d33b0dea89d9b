"""A run as one plain dict: what `--json` prints, and what terminal and Markdown draw.

Run ──► describe_run    what `run --json` and `show --json` print
    └─► view_run        the same, and beside it what only people are shown

`list_folder` says which runs there are, `find_run` which one is meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from answerkey.datasets.storage import is_stored
from answerkey.errors import RunError, suggest
from answerkey.metrics import MODEL_CALL_FAILED, STOPPED_EARLY, average_counts, wilson
from answerkey.runs import (
    Run,
    TaskRun,
    find_place,
    is_run,
    list_places,
    load_run,
    load_summary,
    name_answerer,
)
from answerkey.text import (
    Cell,
    Line,
    Span,
    Table,
    clean_numbers,
    describe_metric,
    format_count,
    format_interval,
    format_value,
    is_share,
    lay_out,
    make_visible,
    say_reused,
)
from answerkey.types import MetricValue, ScoreStatus

#: Metrics about the order of the options, which have a table of their own.
ORDER_TYPES = {"choice_order", "pride"}
#: So many samples without a score are named for each reason, and so many rows read together to find
#: them.
SHOWN_FAILED, READ_TOGETHER = 20, 131_072
#: So many rows are searched for a wrong sample, and so many runs for one to compare with.
SEARCHED_ROWS, SEARCHED_RUNS = 10_000, 10
#: The folder of runs, where none is named.
RUNS = "runs"


def describe_run(run: Run) -> dict[str, Any]:
    """Return the run, its tasks and its notices; numbers that are not finite become null."""
    described = _describe_run(run)
    notices = described.pop("notices")
    if run.gates:  # a feature is imported where a run has something of it
        from answerkey.gates.rules import describe_run_gates

        described["gates"] = describe_run_gates(run)
    if any("variant" in task for task in described["tasks"]):
        from answerkey.comparison.compare import describe_variants

        described["variants"] = describe_variants(run)
    clean: dict[str, Any] = clean_numbers({**described, "notices": notices})
    return clean


def _describe_run(run: Run) -> dict[str, Any]:
    shown = ("key", "display_name", "answerkey_version", "started_at", "ended_at")
    about: dict[str, Any] = {
        "path": None if run.path is None else str(run.path),
        "status": run.status,
    }
    about |= {name: run.manifest.get(name) for name in shown}
    about |= {"stopped": run.manifest["stopped"]} if "stopped" in run.manifest else {}
    tasks = [_describe_task(one) for one in run.tasks.values()]
    return {"run": about, "tasks": tasks, "notices": list(run.manifest["notices"])}


def _describe_task(task: TaskRun) -> dict[str, Any]:
    """Return one task: what was evaluated, the counts that add up, every metric, the counts behind
    them.
    """
    totals = {name: count for name, count in task.totals.items() if name != "counts"}
    counted: Mapping[str, Any] = totals.get("readings") or {}
    total = sum(sum(row.values()) for row in (totals.get("letters") or {}).values())
    if 0 < counted.get("n", 0) < total:
        totals["readings"] = {**counted, "drawn_from": total}
    repeats = {name: task.manifest.get(name) for name in ("trials", "choice_order", "variant")}
    repeats["repeatability"] = task.repeatability
    repeats["reused"] = say_reused((task.manifest.get("calls") or {}).values())
    if totals.get("fallback"):
        from answerkey.run_audit.text import describe_fallbacks

        repeats["fallback"] = describe_fallbacks(task)
    return {
        "key": task.key,
        **{
            name: task.manifest.get(name)
            for name in ("display_name", "model", "dataset", "completions")
        },
        "counts": dict(task.counts),
        "calls": task.manifest.get("calls"),
        "metrics": [describe_metric(value) for value in task.metrics.values()],
        "tally": totals,
        **{name: value for name, value in repeats.items() if value},
    }


# ------------------------------------------------------------------------- what only people are
# shown


def view_run(run: Run) -> dict[str, Any]:
    """Return what `describe_run` does, and beside it what is said of it to people.

    Numbers stay as they are, infinite ones as well; gates and variants are drawn from the run
    itself.
    """
    view, is_complete = _describe_run(run), run.status == "complete"
    entries: Sequence[Mapping[str, Any]] = run.manifest["tasks"]
    view["title"] = str(run.manifest.get("display_name") or run.key)
    view["can_go_on"] = not is_complete and _can_go_on(run)
    view["unfinished"] = [entry for entry in entries if entry["key"] not in run.tasks]
    view["tasks"] = [
        described
        | _view_task(task, described["metrics"])
        | ({} if is_complete else _view_incomplete(task))
        for described, task in zip(view["tasks"], run.tasks.values(), strict=True)
    ]
    return view


def _view_task(task: TaskRun, metrics: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    totals = task.totals
    rows = totals.get("orders") or totals.get("trials")
    return {
        "metrics": [
            {**described, "label": label_metric(task, value), "is_share": is_share(value)}
            | {"is_about_order": value.type in ORDER_TYPES}
            for described, value in zip(metrics, task.metrics.values(), strict=True)
        ],
        "answerer": name_answerer(task.manifest),
        "scorer_names": list_scorer_names(task),
        "judges": list_judges(task.manifest, "judge"),
        "fallbacks": list_judges(task.manifest, "fallback"),
        "config": task.manifest.get("config") or {},
        "fingerprints": {
            name: (task.manifest.get(name) or {}).get("fingerprint") for name in ("task", "dataset")
        },
        "repeated": task.manifest.get("repeatability"),
        "row_counts": rows["counts"] if rows else None,
        "invalid": [
            {"reason": reason, **one, "share": one["count"] / count_rows(task)["scored"]}
            for reason, one in sorted(totals["invalid"].items(), key=lambda pair: -pair[1]["count"])
        ],
        "unscored": _list_unscored(task) if totals["failed"] or totals["errors"] else [],
        "failures": [
            {"scorer": key, "name": name_scorer(task, key), "reason": reason, **one}
            for key, reasons in (totals.get("failures") or {}).items()
            for reason, one in sorted(reasons.items(), key=lambda pair: -pair[1]["count"])[
                :SHOWN_FAILED
            ]
        ],
        "main_scorer": task.main_scorer,
        "categories": _view_categories(task) if totals["categories"] else None,
    }


def _list_unscored(task: TaskRun) -> list[dict[str, Any]]:
    """Return samples without a score: how many for each reason, and the first of them."""
    found = [(kind, *pair) for kind in ("failed", "errors") for pair in task.totals[kind].items()]
    key, stored = task.main_scorer, task.stored_scores
    names: dict[str, list[str]] = {}
    if key in stored.read(0, 1).columns:
        for offset in range(0, len(stored), READ_TOGETHER):
            table = stored.read(offset, READ_TOGETHER, ["sample_id", str(key)]).unnest(str(key))
            unscored = table.filter(pl.col("status") != ScoreStatus.SCORED.value)
            groups = unscored.group_by(pl.col("reason").fill_null("UNKNOWN")).agg("sample_id")
            for reason, ids in groups.iter_rows():
                names[reason] = list(dict.fromkeys([*names.get(reason, []), *ids]))[:SHOWN_FAILED]
    return [
        {
            "kind": kind,
            "reason": reason,
            "count": one["count"],
            "samples": names.get(reason) or [one["example"]["sample_id"]],
        }
        for kind, reason, one in found
    ]


def _view_categories(task: TaskRun) -> dict[str, Any] | None:
    """Return the accuracy of each category, and their plain mean; None where there is none to show.

    There is none where a metric is grouped by that column: its own table says the same. Trials of
    one sample are no independent draws, so that they have no interval.
    """
    found: Mapping[str, Mapping[str, int]] = task.totals["categories"]
    column, has_trials = task.totals["category_column"], bool(task.totals.get("trials"))
    grouped = {groups.column for value in task.metrics.values() for groups in value.groups}
    if column in grouped:
        return None
    rows = [
        {"label": name, "correct": one["correct"], "n": one["n"]}
        # What is partly right is no share of right answers: a bare count is all that is certain.
        | {"value": None if one["partial"] else one["correct"] / one["n"]}
        | {"interval": None if one["partial"] or has_trials else wilson(one["correct"], one["n"])}
        for name, one in found.items()
    ]
    macro = None
    if len(rows) > 1 and not has_trials and not any(one["partial"] for one in found.values()):
        macro = average_counts([(one["correct"], one["n"]) for one in found.values()])
    return {"column": column, "unit": "trials" if has_trials else "n", "rows": rows, "macro": macro}


def _view_incomplete(task: TaskRun) -> dict[str, Any]:
    """Return why a task has no number, and what to do about samples that could not be scored."""
    unscored, advice = task.totals.get("unscored", 0), None
    if unscored and not _lacks_calls(task):
        advice = (
            "Mend the scorer and use `answerkey rescore` with the changed task file, or "
            "allow as many"
        )
        advice += f" samples without a score with `--allow-failed {unscored}`."
        if _find_stopped(task) and task.manifest.get("calls"):
            advice = "Mend the scorer and run the task again."
    return {"cause": find_cause(task), "advice": advice}


def find_cause(task: TaskRun) -> str:
    """Return why a task is not complete: completions or scores that are missing, judges without an
    answer.
    """
    counts, failures = task.counts, task.totals.get("failures") or {}
    samples, unscored = format_count(counts["samples"], "sample"), task.totals.get("unscored", 0)
    missing = {
        why: sum(reasons.get(why, {}).get("count", 0) for reasons in failures.values())
        for why in sorted(MODEL_CALL_FAILED, reverse=True)
    }
    unjudged = sum(missing.values())
    if counts["errors"] and not (unjudged and "ERROR" not in task.totals["completion_statuses"]):
        return f"{counts['errors']} of {samples} got no completion"
    if unjudged:
        calls = [
            f"{format_count(count, 'call')} to a {why.partition('_')[0].lower()}"
            for why, count in missing.items()
            if count
        ]
        return f"{' and '.join(calls)} failed"
    if not unscored:
        return "the rest of the run is not complete"
    if stopped := _find_stopped(task):
        key, reason, count = stopped
        return (
            f"the first {count} all failed in the same way (scorer `{make_visible(key)}`:"
            f" {make_visible(reason)}), and the run stopped there: {unscored} of "
            f"{samples} were not scored"
        )
    causes = [
        (key, reason, one["count"])
        for key, found in failures.items()
        for reason, one in found.items()
    ]
    key, reason, _ = max(causes, key=lambda one: one[2])
    where = f"scorer `{make_visible(key)}`: {make_visible(reason)}"
    return f"{unscored} of {samples} could not be scored (most often {where})"


def _find_stopped(task: TaskRun) -> tuple[str, str, int] | None:
    """Return scorer, reason and count of the failures that ended a task early.

    None where none did.
    """
    for key, reasons in (task.totals.get("failures") or {}).items():
        first = next(iter(reasons))
        if STOPPED_EARLY in reasons and first != STOPPED_EARLY:
            return key, first, reasons[first]["count"]
    return None


def _lacks_calls(task: TaskRun) -> bool:
    """Return whether a call of the task has failed, to its model or to a judge."""
    failures = (task.totals.get("failures") or {}).values()
    return bool(task.counts["errors"]) or any(
        MODEL_CALL_FAILED.intersection(reasons) for reasons in failures
    )


def _can_go_on(run: Run) -> bool:
    """Return whether there is something left to do; recorded completions stay as they are.

    So do samples that a scorer cannot score, once all calls are answered.
    """
    entries: Sequence[Mapping[str, Any]] = run.manifest["tasks"]
    is_stopped = "stopped" in run.manifest
    if run.path is None:
        return False
    if (
        run.status == "incomplete"
        and not is_stopped
        and not any(map(_lacks_calls, run.tasks.values()))
    ):
        return False
    if "rescored_from" in run.manifest and not any(map(list_judges, entries)):
        return False
    return run.status == "running" or is_stopped or any(one.get("calls") for one in entries)


# ------------------------------------------------------------------------------ names and single
# facts


def list_judges(entry: Mapping[str, Any], role: str | None = None) -> list[str]:
    """Return the names of the models that scorers ask, in this role if one is given, each once."""
    scorers: Sequence[Mapping[str, Any]] = entry.get("scorers") or []
    models = [one["model"] for one in scorers if one.get("model")]
    asked = [str(one["name"]) for one in models if role in {None, one.get("role", "judge")}]
    return list(dict.fromkeys(asked))


def list_scorer_names(task: TaskRun) -> dict[str, str]:
    """Return scorer key → display name, of the scorers that have one."""
    scorers: Sequence[Mapping[str, Any]] = task.manifest["scorers"]
    return {one["key"]: str(one["display_name"]) for one in scorers if one.get("display_name")}


def name_scorer(task: TaskRun, key: str) -> str:
    """Return a scorer's display name, or its key when it has none."""
    return list_scorer_names(task).get(key, key)


def label_metric(task: TaskRun, value: MetricValue) -> str:
    """Return a metric's name.

    One that begins with the scorer's key shows the display name instead.
    """
    name = list_scorer_names(task).get(value.scorer)
    if name is None or not value.name.startswith(f"{value.scorer}_{value.metric}_"):
        return value.name
    return f"{name}: {value.name.removeprefix(f'{value.scorer}_')}"


def count_rows(task: TaskRun) -> Mapping[str, int]:
    """Return the counts of completions: of samples, or of rows where there are several of each."""
    rows = task.totals.get("orders") or task.totals.get("trials")
    found: Mapping[str, int] = rows["counts"] if rows else task.counts
    return found


def measure_seconds(run: Run) -> float | None:
    """Return how long a run took; None where its times are not known."""
    try:
        began, ended = (
            datetime.fromisoformat(str(run.manifest.get(name)))
            for name in ("started_at", "ended_at")
        )
    except ValueError:
        return None
    return max(0.0, (ended - began).total_seconds())


def find_example(run: Run) -> tuple[str, str] | None:
    """Return a sample that is worth a look, and what it is: the first wrong one, else INVALID or
    failed.
    """
    for task in run.tasks.values():
        key = task.main_scorer
        head = task.stored_scores.read(0, SEARCHED_ROWS, ["sample_id", *([key] if key else [])])
        if key and "is_correct" in (values := head[key].struct.field("values").struct).fields:
            wrong = head.filter(values.field("is_correct") == 0)
            metadata = wrong[key].struct.field("metadata").struct
            if "completion_validity" in metadata.fields:
                is_valid = metadata.field("completion_validity") == "VALID"
                wrong = wrong.filter(is_valid)
            if wrong.height:
                return str(wrong["sample_id"][0]), "wrong"
        for group, word in (("invalid", "INVALID"), ("failed", "failed")):
            for one in task.totals[group].values():
                return str(one["example"]["sample_id"]), word
        if head.height:
            return str(head["sample_id"][0]), "right"
    return None


def find_neighbour(run: Run) -> str | None:
    """Return the newest run beside this one that it can be compared with.

    None in remote storage.
    """
    if not isinstance(run.path, Path):
        return None
    beside = [Path(str(one)) / "run.json" for one in list_places(run.path.parent)]
    others = [one for one in beside if one.parent.name != run.path.name]
    for file in sorted(others, key=_find_time, reverse=True)[:SEARCHED_RUNS]:
        with suppress(RunError):
            other = load_summary(file.parent)
            if _can_compare(run, other):
                return str(file.parent)
    return None


def _can_compare(run: Run, other: Run) -> bool:
    """Return whether two runs have values of the same samples in the tasks they share."""
    shared = [(task, other.tasks[key]) for key, task in run.tasks.items() if key in other.tasks]
    if not shared or run.status != "complete" or other.status != "complete":
        return False
    datasets = [[one.manifest["dataset"] for one in pair] for pair in shared]
    if all(first["fingerprint"] == second["fingerprint"] for first, second in datasets):
        return all(one.counts["scored"] for pair in shared for one in pair)
    if max(one["samples"] for pair in datasets for one in pair) > SEARCHED_ROWS:
        return False
    from answerkey.evaluate.pairs import pair_samples  # loads what few commands need

    for first, second in shared:
        pair_samples({"a": (run, first), "b": (other, second)}, []).pair_up("a", "b")
    return True


def _find_time(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


# ----------------------------------------------------------- which runs there are, and which one is
# meant


def list_folder(folder: str | Path) -> list[dict[str, Any]]:
    """Return the runs right below a folder, newest first; a run folder itself is a list of one.

    `metric`, `value`, `label` and `text` are of the first task's main metric.
    """
    below, rows = find_place(folder), []
    for place in [below] if is_run(below) else list_places(below):
        names = ("path", "status", "started_at", "key", "model", "samples", "metric", "value")
        row: dict[str, Any] = dict.fromkeys(names) | {"path": str(place), "label": "", "text": ""}
        rows.append(row)
        try:
            run = load_summary(place)
        except RunError as error:
            row |= {"status": "unreadable", "text": error.message}
            continue
        row |= {"status": run.status, "started_at": run.manifest.get("started_at"), "key": run.key}
        tasks = list(run.tasks.values())
        if not tasks:
            continue
        row["model"] = ", ".join(dict.fromkeys(name_answerer(task.manifest) for task in tasks))
        row["samples"] = sum(task.counts["samples"] for task in tasks)
        if (metric := tasks[0].main_metric) is None:
            continue
        row |= {"metric": metric.name, "value": metric.value}
        if (
            run.status == "complete"
        ):  # a number of an incomplete run is no result: it is not shown in passing
            interval = format_interval(metric.interval, as_share=is_share(metric))
            text, row["label"] = (
                f"{format_value(metric)} {interval}".rstrip(),
                label_metric(tasks[0], metric),
            )
            more = f" and {format_count(len(tasks) - 1, 'more task')}"
            row["text"] = f"{tasks[0].key}: {text}{more}" if len(tasks) > 1 else text
    return sorted(rows, key=lambda row: (row["started_at"] or "", row["path"]), reverse=True)


def describe_listing(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return one run of the list as `--json` prints it."""
    return {name: value for name, value in row.items() if name not in {"label", "text"}}


def draw_listing(rows: Sequence[Mapping[str, Any]], width: int) -> list[Line]:
    """Return the list of runs as a table: which, when, the model and the number."""
    cells: list[Sequence[Cell]] = []
    labels = {row["label"] for row in rows if row["label"]}
    for row in rows:
        status = Span(row["status"], "good" if row["status"] == "complete" else "warn")
        started = (row["started_at"] or "")[:16].replace("T", " ")
        samples = "" if row["samples"] is None else str(row["samples"])
        model, result = row["model"] or "", row["text"]
        if " SIMULATED" in model:  # it must not be what is cut off
            model = f"SIMULATED {model.replace(' SIMULATED', '')}"
        if row["status"] == "unreadable":
            model, result = result, ""
        result = result if len(labels) == 1 else f"{row['label']} {result}".strip()
        cells.append([Span(row["path"], "strong"), started, status, model, samples, result])
    header = (
        "run",
        "started (UTC)",
        "status",
        "model",
        "n",
        labels.pop() if len(labels) == 1 else "result",
    )
    return lay_out(Table(header, cells, "<<<<><", flexible=3), width)


def find_runs(names: Iterable[str]) -> list[Run]:
    """Return the runs that are meant, each by its name, or all below a folder."""
    found: list[Run] = []
    for name in names:
        for place in [name] if is_stored(name) else [name, f"{RUNS}/{name}"]:
            below = list_places(place) if is_stored(name) or Path(place).is_dir() else []
            if below and not is_run(find_place(place)):
                found += map(load_run, below)
                break
        else:
            found.append(find_run(name))
    return found


def find_run(name: str) -> Run:
    """Return the run that is meant: a folder, an address, its name below `runs`, or `latest`."""
    if is_stored(name):
        return load_run(name)
    path = Path(name)
    if path.name == "run.json" and path.is_file():
        path = path.parent
    for folder in (path, Path(RUNS) / name):
        if (folder / "run.json").is_file():
            return load_run(folder)
    below = path if path.is_dir() else Path(RUNS)
    known = [row["path"] for row in list_folder(below)] if below.is_dir() else []
    if path.exists() and not (known and path.is_dir()):  # perhaps the log of another tool
        try:
            return load_run(path)
        except RunError as error:
            if error.code != "E501":
                raise
    if name == "latest" and known:
        return load_run(known[0])
    message = (
        f"`{name}` is a folder, but not a run folder"
        if path.is_dir()
        else f"there is no run `{name}`"
    )
    message = f"there is no run below `{RUNS}`" if name == "latest" else message
    hint = "`answerkey runs` lists the runs of a folder; `answerkey run FILE` makes one"
    if known:
        hint = f"the newest run is `{known[0]}`; `answerkey runs` lists the runs of a folder"
    if not path.is_dir():
        beside = list_places(path.parent) if path.parent.is_dir() else []
        names = ["latest", *known, *(Path(one).name for one in known), *map(str, beside)]
        hint = suggest(name, names if known else names[1:]) or hint
    raise RunError("E501", message, hint=hint)
