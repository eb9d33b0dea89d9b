"""A run as it is read: its numbers at hand, its tables when they are asked for, wherever its files
are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Self, TypeVar

import polars as pl

from answerkey._version import __version__
from answerkey.datasets.storage import list_objects
from answerkey.errors import RunError, listing
from answerkey.runs.store import (
    PART,
    RUN_FILE,
    RunFile,
    RunPlace,
    RunStore,
    StoredFolder,
    describe_damage,
    find_place,
    open_store,
    reaching_storage,
    refuse_changed,
    require_digest,
)
from answerkey.text import Drawn
from answerkey.types import (
    Completions,
    Gate,
    GateCheck,
    GateStatus,
    Groups,
    GroupValue,
    MetricValue,
    Samples,
)

_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_MAX_SHOWN = 60
#: Which function makes a run of the log of another tool.
OPEN_LOG = "answerkey.importers.project:open_log"
#: No run has so many samples, calls or tokens.
_MAX_COUNT = 1 << 63


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < _MAX_COUNT


#: Plain values by their words, as messages name them.
_WORDS: Mapping[str, Any] = {
    "text": lambda value: isinstance(value, str),
    "a count": _is_count,
    "a whole number": lambda value: type(value) is int,
    "a count above 0": lambda value: _is_count(value) and value > 0,
    "a number": lambda value: type(value) in {int, float} and abs(value) < _MAX_COUNT * 1e100,
    "true or false": lambda value: isinstance(value, bool),
    "a time": lambda value: isinstance(value, str) and _MOMENT.fullmatch(value) is not None,
    "an object": lambda value: isinstance(value, Mapping),
    "an object with entries": lambda value: isinstance(value, Mapping) and bool(value),
    "a list": lambda value: isinstance(value, list),
    "a pair": lambda value: len(value) == 2,  # noqa: PLR2004 - a list
}


def _require(value: Any, way: str, wanted: str, *, is_so: bool) -> None:  # noqa: ANN401 - whatever a file holds
    if not is_so:
        shown = repr(value)
        shown = shown if len(shown) <= _MAX_SHOWN else f"{shown[:_MAX_SHOWN]}…"
        raise ValueError(f"`{way}` is {shown}, not {wanted}")


def _check(shape: Any, value: Any, way: str) -> None:  # noqa: ANN401 - shapes and values are of any kind
    """Require that a value has a shape; raise ValueError.

    A shape is a word (`a|b` one of these; with `?` null, too), a list of one shape for every entry,
    an object of shapes by key (`*` every key, `key?` one that may be missing), a tuple of shapes
    that all hold, or a function that raises.
    """
    match shape:
        case str():
            word, options = shape.removesuffix("?"), shape.split("|")
            if len(options) > 1:
                _require(value, way, f"one of {', '.join(options)}", is_so=value in options)
            elif value is not None or word == shape:
                _require(value, way, word, is_so=_WORDS[word](value))
        case [*shapes] if isinstance(shape, tuple):
            for one in shapes:
                _check(one, value, way)
        case [one]:
            _check("a list", value, way)
            for number, item in enumerate(value):
                _check(one, item, f"{way}[{number}]")
        case Mapping():
            _check("an object", value, way)
            for name, one in shape.items():
                if name == "*":
                    for key, item in value.items():
                        _check(one, item, f"{way}.{key}")
                elif (key := name.removesuffix("?")) in value:
                    _check(one, value[key], f"{way}.{key}")
                elif key == name:
                    raise ValueError(f"`{way}` has no `{name}`")
        case _:
            shape(value, way)


def _nullable(shape: Any) -> Any:  # noqa: ANN401 - a shape
    """Return a shape that null has, too."""
    return lambda value, way: None if value is None else _check(shape, value, way)


def _rule(wanted: str, holds: Callable[[Any], bool]) -> Callable[[Any, str], None]:
    """Return the shape of what a rule holds for."""
    return lambda value, way: _require(value, way, wanted, is_so=holds(value))


def _check_choice_counts(value: Any, way: str) -> None:  # noqa: ANN401
    _check({"*": "a count"}, value, way)
    for name in value:
        _require(
            name,
            way,
            "a number of choices",
            is_so=bool(re.fullmatch("[1-9][0-9]{0,17}", str(name))),
        )


def _check_readings(value: Any, way: str) -> None:  # noqa: ANN401
    """Require some completions read by every rule, or none of all that."""
    _check({f"{name}?": shape for name, shape in _READINGS.items()}, value, way)
    if n := value.get("n"):
        is_part = lambda one: max(one["correct"], one["invalid"]) <= n and one["correct"] >= 0  # noqa: E731 - a rule
        rules = ({"own": _RULE}, {"*": _rule("a part of what was read", is_part)})
        _check(
            {"own_rule": "an object with entries", "rules": rules, "samples": "a count"}, value, way
        )


def _check_tally(value: Any, way: str) -> None:  # noqa: ANN401
    """Require the counts of a task; of completions that are invalid, some were scored."""
    _check(_TALLY, value, way)
    if value["invalid"]:
        rows = value.get("orders") or value.get("trials") or value
        _check("a count above 0", rows["counts"]["scored"], f"{way}.counts.scored")


def _check_files(value: Any, way: str) -> None:  # noqa: ANN401
    """Require what is said of each file of a run; a table has rows."""
    _check({"*": {"bytes": "a count", "sha256": "text", "tag?": "text"}}, value, way)
    _check({name: {"rows": "a count"} for name in value if name.endswith(".parquet")}, value, way)


_NUMBER = {
    "n_excluded?": {"*": "a count"},
    "interval?": _nullable((["a number"], "a pair")),
    "interval_method?": "text?",
    "interval_note?": "text?",
    "std_error?": "a number?",
    "note?": "text?",
}
_GROUP = {"group": "text?", "value": "a number?", "n": "a count", **_NUMBER}
_METRIC = {
    "name": "text",
    "value": "a number?",
    "n": "a count",
    **_NUMBER,
    **dict.fromkeys(("type?", "metric?", "scorer?"), "text"),
    "purpose?": "score|qa",
    "details?": "an object",
    "is_share?": "true or false",
    "groups?": _nullable([{"column": "text", "values": [_GROUP], "macro": _GROUP}]),
}
_COUNTS = dict.fromkeys(
    ("samples", "scored", "valid", "invalid", "refused", "failed", "errors"), "a count"
)
_EXAMPLE = {"sample_id": "text", "completion?": "text?", "message?": "text?"}
_REASONS = {"*": {"count": "a count above 0", "example": _EXAMPLE}}
_RULE = {"correct": "a number", "invalid": "a count"}
_READINGS = {
    "n": "a count",
    "samples": "a count",
    "own_rule": {"*": "a count"},
    "rules": {"*": _RULE},
}
_CATEGORY = (
    {"n": "a count above 0", "correct": "a count", "partial": "a count"},
    _rule(
        "a category with as many samples as it has right ones",
        lambda one: one["correct"] + one["partial"] <= one["n"],
    ),
)
_TALLY = {
    "counts": _COUNTS,
    "completion_statuses": {"*": "a count"},
    **dict.fromkeys(("invalid", "failed", "errors"), _REASONS),
    "excluded": {"*": "a count"},
    "letters": {"*": ({"*": "a count above 0"}, "an object with entries")},
    "category_column": "text?",
    "categories": {"*": _CATEGORY},
    "cut_off?": "a count",
    "thinking?": "a count",
    "choice_counts?": _check_choice_counts,
    "failures?": {"*": _REASONS},
    "unscored?": "a count",
    "readings?": _check_readings,
    "fallback?": {
        "*": dict.fromkeys(
            ("n", "right", "invalid", "asked", "named", "correct", "failed"), "a count"
        )
    },
    "trials?": {"num_trials": "a count above 0", "counts": _COUNTS, "votes?": {"*": "a number?"}},
    "orders?": {"counts": _COUNTS, "left_in_place?": {"*": "a count"}, "extra?": "a count"},
}
_NUMBERS = {"metrics": [_METRIC], "tally": _check_tally}
_MODEL = _nullable(
    {"name": "text", "simulated?": "true or false", "answer_format?": "text", "prefill?": "text"}
)
_DATASET = {
    **dict.fromkeys(("key", "fingerprint"), "text"),
    **dict.fromkeys(("display_name", "file", "category"), "text?"),
    **dict.fromkeys(("rows_read", "rows_filtered", "samples"), "a count"),
}
_SELECTION = {
    "num_samples": "a count?",
    "subsampling": "head|random",
    "seed": "a whole number",
    "stratify_by": "text?",
}
_PRICE = {
    **dict.fromkeys(("prompt", "completion"), "a number"),
    **dict.fromkeys(("cached", "written"), "a number?"),
    "is_cache_full": "true or false",
}
_SCORER = {
    "key": "text",
    "type?": "text",
    "title?": "text",
    "display_name?": "text?",
    "model?": _MODEL,
}
_ENTRY = {
    "key": "text",
    "display_name": "text?",
    "task": "an object",
    "dataset": _DATASET,
    "model": _MODEL,
    "completions": {
        "source": "text",
        **dict.fromkeys(("file", "sha256", "column", "model?"), "text?"),
        "split_thinking?": "true or false",
    },
    "config": "an object",
    "scorers": [_SCORER],
    "selection": (
        _SELECTION,
        _rule("its four settings", lambda one: one.keys() == _SELECTION.keys()),
    ),
    "counts": _nullable(_COUNTS),
    "encoded?": {"*": ["text"]},
    "calls?": {
        "*": {"calls": "a count", "price?": _nullable(_PRICE), "oldest_seconds?": "a number?"}
    },
    "trials?": {"num_trials": "a count above 0", "score_aggregators": ["an object"]},
    "repeatability?": {"num_runs": "a count above 0"},
    **dict.fromkeys(("choice_order?", "variant?"), "an object"),
}
_MANIFEST = {
    "key": "text",
    "status": "running|complete|incomplete",
    "tasks": [_ENTRY],
    "display_name": "text",
    **dict.fromkeys(("started_at", "ended_at?"), "a time"),
    "notices": ["text"],
    "stopped?": {"message": "text", "code": "text?"},
    "gates?": ["an object"],
    "policies?": ["an object"],
    "options?": "an object",
    "file?": "text?",
    "matrix?": ["text"],
    "rescored_from?": {"path": "text?", "started_at": "text?"},
    "files?": _check_files,
}


def require_manifest(manifest: Mapping[str, Any]) -> None:
    """Require that `run.json` looks as it is written; raise ValueError."""
    _check(_MANIFEST, manifest, "run")
    require_folder_names(entry["key"] for entry in manifest["tasks"])
    if manifest["status"] != "running" and "files" not in manifest:
        raise ValueError("`run` has no `files`, though it has ended")


def require_folder_names(names: Iterable[str]) -> None:
    """Require that each name is that of a folder, and leads nowhere else; raise ValueError."""
    for name in names:
        if not _FOLDER_NAME.fullmatch(name) or name in {".", ".."}:
            raise ValueError(f"{name!r} cannot be the key of a task")


def require_numbers(stored: Mapping[str, object]) -> None:
    """Require that `metrics.json` looks as it is written; raise ValueError."""
    _check(_NUMBERS, stored, "numbers")


def require_counts(store: RunStore, entry: Mapping[str, Any], counts: Mapping[str, int]) -> None:
    """Raise E503 unless the counts of a task in `run.json` are those of its `metrics.json`."""
    stated = {**entry["counts"], "samples of the dataset": entry["dataset"]["samples"]}
    counted = {**counts, "samples of the dataset": counts["samples"]}
    for name, count in counted.items():
        if stated[name] != count:
            why = f"it counts {stated[name]:,} {name} of `{entry['key']}`, `metrics.json` {count:,}"
            raise refuse_changed(store.show("run.json"), why)


T = TypeVar("T")
#: `bytes` and `sha256` of each file by its path below the run folder; `rows` of a table, `tag` of
#: an object.
Listed = Mapping[str, Mapping[str, Any]]
FORMAT_VERSION = 2
NOT_COMPLETE = "the run is not complete"
#: What a share of right answers is called in a scorer's values.
RIGHT = "is_correct"
#: The modules that draw plots of a run, and make one table of it; they lie above.
PLOTS, EXPORTERS, WRITING = (
    "answerkey.reports.overview",
    "answerkey.exporters",
    "answerkey.runs.writing",
)
#: What a task that was run several times has beside the tables of its first repetition.
REPETITIONS, REPEATABILITY, AGREEMENT = "repetitions", "repeatability.json", "agreement.parquet"
_FOLDER_NAME = re.compile(r"[^/\\\x00-\x1f]{1,300}")


@dataclass(frozen=True)
class Table:
    """A table of a run in parts, one for each shard, of which any range of rows can be read.

    E503 when the parts are damaged.
    """

    store: RunStore
    base: str
    found: tuple[RunFile, ...] | None = None

    @cached_property
    def parts(self) -> tuple[RunFile, ...]:
        """The parts in their order, as they were when the run was opened, or are now."""
        if self.found is not None:
            return self.found
        return tuple(
            file for name, file in self.store.list_files(self.base).items() if PART.fullmatch(name)
        )

    @cached_property
    def _rows(self) -> tuple[int, ...]:
        return tuple(self.store.map(self.store.count_rows, self.parts))

    def __len__(self) -> int:
        """Return how many rows there are."""
        return sum(self._rows)

    def __iter__(self) -> Iterator[pl.DataFrame]:
        """Yield part by part; one is in memory at a time."""
        return (
            self.store.read_rows(part, range(self.store.count_rows(part))) for part in self.parts
        )

    def read(self, offset: int, length: int, columns: Sequence[str] | None = None) -> pl.DataFrame:
        """Return the rows from `offset` on, at most `length` of them, with all columns or with
        some.
        """
        found, start = list[pl.DataFrame](), 0
        for part, count in zip(self.parts, self._rows, strict=True):
            rows = range(max(offset - start, 0), min(offset + length - start, count))
            if rows:
                found.append(self.store.read_rows(part, rows, columns))
            start += count
        return join_parts(found)

    def read_all(self) -> pl.DataFrame:
        """Return the whole table; a frame without columns when there are no parts."""
        try:
            return join_parts(list(self))
        except pl.exceptions.PolarsError as error:
            raise describe_damage(self.store.show(self.base), error) from error


def join_parts(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return parts as one frame.

    A field that some parts lack is null there, differing types become text.
    """
    return pl.concat(parts, how="vertical_relaxed") if parts else pl.DataFrame()


@dataclass(frozen=True)
class KeptCompletions:
    """The completions that a run keeps, `num_trials` for each of its samples."""

    parts: Table
    num_trials: int
    offset: int = 0
    length: int | None = None
    columns: frozenset[str] = frozenset()

    def slice(self, offset: int, length: int) -> Self:
        """Return those of `length` samples from `offset` on."""
        return replace(self, offset=self.offset + offset, length=length)

    def read(self, samples: Samples) -> Completions:
        """Return the completions of the samples."""
        length = len(samples) if self.length is None else self.length
        return Completions.from_frame(
            self.parts.read(self.offset * self.num_trials, length * self.num_trials)
        )


@dataclass(frozen=True, repr=False)
class TaskRun:
    """One task of a run: its numbers at hand, its tables read when asked for.

    `manifest` is the task's entry in `run.json`; `source` the task as it was resolved; `tally` the
    counts behind the summary; `stored_scores` and `stored_completions` its tables, to be read in
    part, and `stored_samples` the rows of its dataset, if it was in memory. A task that was run
    several times has its further `repetitions`, and what all of them say together in
    `repeatability`; its own numbers are those of the first.
    """

    key: str
    manifest: Mapping[str, Any]
    source: Mapping[str, Any]
    metrics: Mapping[str, MetricValue]
    totals: Mapping[str, Any]
    stored_scores: Table
    stored_completions: Table
    stored_samples: Table
    read_agreement: Callable[[], pl.DataFrame] = pl.DataFrame
    repeatability: Mapping[str, Any] | None = None
    repetitions: tuple[TaskRun, ...] = ()

    def __repr__(self) -> str:
        return f"TaskRun(key={self.key!r}, {self.sum_up()})"

    def sum_up(self) -> str:
        """Return the main metric and how many samples there are, in a few words.

        No number with errors.
        """
        counts, main = self.counts, self.main_metric
        samples = f"samples={counts['samples']}"
        if counts.get("errors"):
            return f"{samples}, errors={counts['errors']}"
        if main is None or main.value is None:
            return samples
        return f"{main.name}={main.value:.4g}, {samples}"

    @property
    def main_metric(self) -> MetricValue | None:
        """The first metric that counts for the score, or None when the task has none."""
        return next((value for value in self.metrics.values() if value.purpose == "score"), None)

    @property
    def main_scorer(self) -> str | None:
        """The key of the scorer that the counts belong to: the first with purpose `score`."""
        scorers: Sequence[Mapping[str, Any]] = self.manifest["scorers"]
        first = next((one for one in scorers if one.get("purpose", "score") == "score"), None)
        return (first or (scorers[0] if scorers else {})).get("key")

    def is_accuracy(self, metric: MetricValue) -> bool:
        """Return whether a metric is the share of right answers, of which guessing would have some,
        too.

        Under trials it is one only where their mean stands for a sample.
        """
        scorers = self.source.get("task", {}).get("definition", {}).get("scorers") or []
        metrics = [
            one for scorer in scorers if scorer["key"] == metric.scorer for one in scorer["metrics"]
        ]
        fields = [str(one.get("field")) for one in metrics if one["key"] == metric.metric]
        if metric.type != "mean" or metric.scorer != self.main_scorer or not fields:
            return False
        name, _, label = fields[0].partition(".")
        if not (trials := self.manifest.get("trials")):
            return fields[0] == RIGHT
        found = [one for one in trials["score_aggregators"] if one["score_name"] == RIGHT]
        usual = found[0]["aggregator"]["function"] if found else "mean"
        return name == RIGHT and (label or usual) == "mean"

    @property
    def counts(self) -> Mapping[str, int]:
        """Samples, scored, valid, invalid, refused, failed, errors."""
        counts: Mapping[str, int] = self.totals["counts"]
        return counts

    @cached_property
    def scores(self) -> pl.DataFrame:
        """The table of scores: `sample_id`, `trial`, then one struct per scorer."""
        return self.stored_scores.read_all()

    def score_parts(self) -> Iterator[pl.DataFrame]:
        """Yield the table of scores part by part, in dataset order.

        One part is in memory at a time.
        """
        return iter(self.stored_scores)

    @cached_property
    def completions(self) -> pl.DataFrame:
        """The table of completions; empty when the run refers to recorded ones."""
        return self.stored_completions.read_all()

    def to_frame(self) -> pl.DataFrame:
        """Return one flat table, a row for each sample and trial: the dataset's columns,
        completion, scores.

        What a scorer found is `<scorer>.<name>`; a column of the dataset that is called like one of
        ours is `sample.<name>`. `prompt` and columns of mixed types are JSON text. The dataset must
        be there (E505). `export` writes the same columns as CSV and Parquet. `run` is the name of
        the run's folder.
        """
        frame: pl.DataFrame = import_module(EXPORTERS).build_frame(self)
        return frame

    @cached_property
    def agreement(self) -> pl.DataFrame:
        """How far repetitions agree: `sample_id`, then one struct per scorer.

        Empty without repetitions.
        """
        return self.read_agreement()


@dataclass(frozen=True, repr=False)
class Run(Drawn):
    """A run: what ran, and its tasks. `path` is None for a run that was never written.

    A run on object storage has its address there.
    """

    drawn_by = "answerkey.reports.terminal:draw_summary"

    manifest: Mapping[str, Any]
    tasks: Mapping[str, TaskRun]
    path: RunPlace | None = None

    def __repr__(self) -> str:
        tasks = ", ".join(f"{key!r}: {task.sum_up()}" for key, task in self.tasks.items())
        path = None if self.path is None else str(self.path)
        return f"Run(key={self.key!r}, status={self.status!r}, tasks={{{tasks}}}, path={path!r})"

    @property
    def key(self) -> str:
        """The key of the evaluation or task that ran."""
        return str(self.manifest["key"])

    @property
    def status(self) -> str:
        """`running`, `complete` or `incomplete`."""
        return str(self.manifest["status"])

    @property
    def gates(self) -> tuple[Gate, ...]:
        """How the rules of its policies stand, in their order; empty without policies.

        Of a run that never came to its end, its rules, none of them decided.
        """
        if "gates" in self.manifest:
            return tuple(map(_read_gate, self.manifest["gates"]))
        return tuple(
            leave_open(policy["key"], rule, NOT_COMPLETE)
            for policy in self.manifest.get("policies") or ()
            for rule in policy["rules"]
        )

    @cached_property
    def plots(self) -> Mapping[str, dict[str, Any]]:
        """The plots by name, as Vega-Lite specifications; of several tasks by `task/name`."""
        plots: Mapping[str, dict[str, Any]] = import_module(PLOTS).list_plots(self)
        return plots

    @property
    def metrics(self) -> Mapping[str, MetricValue]:
        """The metrics of the only task; a run of several tasks has them in `tasks[key].metrics`."""
        return self._find_only("metrics").metrics

    def to_frame(self) -> pl.DataFrame:
        """Return the only task as one flat table; see `TaskRun.to_frame`."""
        return self._find_only("to_frame").to_frame()

    def _find_only(self, name: str) -> TaskRun:
        if len(self.tasks) != 1:
            message = (
                f"the run has {len(self.tasks)} tasks ({listing(self.tasks)}), so `{name}` "
                "is ambiguous"
            )
            hint = f"use `run.tasks[key].{name}`"
            raise RunError("E504", message, hint=hint)
        return next(iter(self.tasks.values()))

    def save(self, path: str | RunPlace) -> Run:
        """Write the run into a new folder, or to an address, and return it as it is there."""
        saved: Run = import_module(WRITING).save_run(self, path)
        return saved


def find_answerer(entry: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the model of a task's entry in `run.json`: the one asked, or that of recorded
    completions.
    """
    name = (entry.get("completions") or {}).get("model")
    return entry.get("model") or ({"name": name} if name else None)


def name_answerer(entry: Mapping[str, Any], *, with_folder: bool = True) -> str:
    """Return who answered: a model, marked when simulated.

    If none is known, the column or the file.
    """
    if model := find_answerer(entry):
        return f"{model['name']}{' SIMULATED' if model.get('simulated') else ''}"
    source: Mapping[str, Any] = entry.get("completions") or {}
    file = source.get("file")
    file = Path(file).name if file and not with_folder else file
    return str(source.get("column") or file or f"{source.get('source', 'recorded')} completions")


def list_forced(entry: Mapping[str, Any]) -> dict[str, str]:
    """Return, by their names, what decided how replies look, in words: they change what is
    measured.
    """
    model: Mapping[str, Any] = entry.get("model") or {}
    forced = {"prefill": repr(model["prefill"])} if "prefill" in model else {}
    if "answer_format" in model:
        forced = {"answer format": "replies are constrained to the sample's choices", **forced}
    return forced


def load_run(path: Run | str | Path | StoredFolder) -> Run:
    """Return the run in a folder.

    A run that is still being written shows the tasks finished so far. The folder may be on object
    storage: `s3://bucket/runs/name`. A run is returned as it is. The log of another tool, as a file
    or a folder, is read as the run that its import gives.
    """
    if isinstance(path, Run):
        return path
    store = open_store(place := find_place(path))
    if isinstance(place, Path) and store.find_file("run.json") is None and place.exists():
        found: Run | None = resolve_name(OPEN_LOG)(place)
        if found is not None:
            return found
    return read_run(store, read_manifest(store))


def load_summary(place: RunPlace) -> Run:
    """Return a run for a list of runs: its tables, which may be large, are not compared with
    `run.json`.
    """
    store = open_store(place)
    return read_run(store, read_manifest(store), is_compared=False)


def load_manifest(place: RunPlace) -> dict[str, Any]:
    """Return `run.json`; E501 when there is none, E503 when it cannot be understood."""
    return read_manifest(open_store(place))


def list_runs(folder: str | Path) -> list[Run]:
    """Return the runs right below a folder, newest first.

    Folders that hold no run are passed over.
    """
    runs = [load_run(place) for place in list_places(folder)]
    return sorted(
        runs, key=lambda run: (str(run.manifest.get("started_at")), str(run.path)), reverse=True
    )


def is_run(place: RunPlace) -> bool:
    """Return whether there is a run, and not only a folder of runs."""
    return open_store(place).find_file("run.json") is not None


def list_places(folder: str | RunPlace) -> list[RunPlace]:
    """Return where the runs below a folder are, in order of their names; E501 when it is none.

    They are right below it, or below a folder in it that is no run itself, as those of several
    models are.
    """
    below = find_place(folder)
    if isinstance(below, StoredFolder):
        with reaching_storage():
            names = [one.url[len(below.url) + 1 :] for one in list_objects(below.url)]
    elif not below.is_dir():
        raise RunError(
            "E501", f"`{below}` is not a folder", hint="name the folder that holds your runs"
        )
    else:
        there = [*below.glob("*/run.json"), *below.glob("*/*/run.json")]
        names = [one.relative_to(below).as_posix() for one in there]
    found = {
        name.rpartition("/")[0] for name in names if re.fullmatch(r"(?:[^/]+/){1,2}run\.json", name)
    }
    runs = [name for name in found if name.rpartition("/")[0] not in found]
    return [below / name for name in sorted(runs, key=_count_names)]


def _count_names(path: str) -> list[tuple[int, str]]:
    """Return what paths are ordered by: the numbers that their names begin with, then the names."""
    return [
        (int(found[0]) if (found := re.match(r"\d{1,6}(?=-)", name)) else 0, name)
        for name in path.split("/")
    ]


def read_manifest(store: RunStore) -> dict[str, Any]:
    """Return `run.json`; E501 when there is none, E503 when it cannot be understood."""
    file = store.find_file("run.json")
    if file is None:
        hint = "`answerkey runs` lists the runs of a folder"
        raise RunError("E501", f"`{store.place}` is not a run folder", hint=hint)
    manifest = store.read_json(file)
    version = manifest.get("format_version")
    if version != FORMAT_VERSION:
        writer = manifest.get("answerkey_version", "another version")
        message = f"`{store.place}` was written by answerkey {writer}, in run format {version!r}"
        hint = f"this is answerkey {__version__}, which reads format {FORMAT_VERSION}: run it again"
        raise RunError("E503", message, hint=hint)
    with understanding(store.place):
        require_manifest(manifest)
    return manifest


def read_run(
    store: RunStore, manifest: Mapping[str, Any], *, is_own: bool = False, is_compared: bool = True
) -> Run:
    """Return a run as its files and a manifest say, which may not be written yet.

    E503 when it is none. One that `is_own` was written by this process just now, and is not
    checked; unless it `is_compared`, tables may have changed.
    """
    there = store.list_files("tasks")
    entries = manifest["tasks"]
    listed: Listed | None = None if is_own else manifest.get("files")
    if listed is not None:
        require_listed(store, listed, there, is_complete=manifest["status"] == "complete")
        tables = [there[name] for name in listed if is_compared and name.endswith(".parquet")]
        store.map(lambda file: require_content(store, file, listed[file.name]), tables)
    with understanding(store.place):
        bases = {f"tasks/{entry['key']}": entry for entry in entries}
        bases = {base: entry for base, entry in bases.items() if f"{base}/metrics.json" in there}
        stored = [name for name in there if name.endswith(".json") and RUN_FILE.fullmatch(name)]
        names = [name for name in stored if "/".join(name.split("/")[:2]) in bases]
        found = store.map(
            lambda name: store.read_json(there[name], find_digest(listed, name)), names
        )
        numbers = dict(zip(names, found, strict=True))
        tasks = {
            entry["key"]: _read_task(store, base, entry, there, listed, numbers, is_own=is_own)
            for base, entry in bases.items()
        }
        return Run(manifest, tasks, store.place)


def _read_task(
    store: RunStore,
    base: str,
    entry: Mapping[str, Any],
    there: Mapping[str, RunFile],
    listed: Listed | None,
    numbers: Mapping[str, dict[str, Any]],
    *,
    is_own: bool,
) -> TaskRun:
    """Return a task with its repetitions, as far as they are finished.

    `numbers` are its JSON files.
    """

    def open_table(folder: str) -> Table:
        if listed is None:
            return Table(store, folder)
        names = sorted(name for name in listed if name.startswith(f"{folder}/"))
        return Table(store, folder, tuple(there[name] for name in names))

    def read_agreement() -> pl.DataFrame:
        file = there.get(f"{base}/{AGREEMENT}")
        if file is None:
            return pl.DataFrame()
        return store.read_rows(file, range(store.count_rows(file)))

    def build(folder: str) -> TaskRun:
        stored = numbers[f"{folder}/metrics.json"]
        if not is_own:
            require_numbers(stored)
        if listed is not None and folder == base and entry["counts"] is not None:
            require_counts(store, entry, stored["tally"]["counts"])
        return TaskRun(
            key=entry["key"],
            manifest=entry,
            source=numbers[f"{base}/task.json"],
            metrics={one["name"]: read_metric_value(one) for one in stored["metrics"]},
            totals=stored["tally"],
            stored_scores=open_table(f"{folder}/scores"),
            stored_completions=open_table(f"{folder}/completions"),
            stored_samples=open_table(f"{base}/samples"),
        )

    folders = [name.rpartition("/")[0] for name in numbers if name.endswith("/metrics.json")]
    again = [one for one in folders if one.startswith(f"{base}/{REPETITIONS}/")]
    again.sort(key=lambda one: int(one.rpartition("/")[2]))
    if not again:
        return build(base)
    return replace(
        build(base),
        repetitions=tuple(map(build, again)),
        repeatability=numbers.get(f"{base}/{REPEATABILITY}"),
        read_agreement=read_agreement,
    )


@contextmanager
def understanding(place: RunPlace | None) -> Iterator[None]:
    """Turn what a strange manifest leads to into E503."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        message = f"`{place}` does not hold what a run does: {type(error).__name__}: {error}"
        raise RunError(
            "E503", message, hint="the run folder is damaged, or none of ours"
        ) from error


def choose_files(names: Collection[str]) -> list[str]:
    """Return those of these files that belong in the list of `run.json`, in order.

    A worker may still be writing parts of what has no numbers yet, and nothing reads them.
    """
    folders = {name: hit[1] for name in names if (hit := RUN_FILE.fullmatch(name))}
    return sorted(
        name
        for name, folder in folders.items()
        if name.endswith("/task.json") or f"{folder}/metrics.json" in folders
    )


def describe_files(store: RunStore) -> dict[str, dict[str, Any]]:
    """Return the list of the files of a run for `run.json`, from what was written."""
    there = store.list_files("tasks")

    def describe(name: str) -> dict[str, Any]:
        file = there[name]
        rows = {"rows": store.count_rows(file)} if name.endswith(".parquet") else {}
        tag = {"tag": file.tag} if file.tag else {}
        return {**rows, "bytes": file.size, "sha256": store.digest(file), **tag}

    names = choose_files(there)
    return dict(zip(names, store.map(describe, names), strict=True))


def require_listed(
    store: RunStore, listed: Listed, there: Mapping[str, RunFile], *, is_complete: bool
) -> None:
    """Raise E503 unless the files that are there, with their sizes, are those of the list."""
    names = sorted(listed.keys() - there.keys())
    problem = "is missing: `run.json` lists it"
    hint = "copy the run folder again from where it is whole, or run again"
    if not names:
        expected = sorted(there) if is_complete else choose_files(there)
        names = [name for name in expected if name not in listed]
        problem = "is not of this run: `run.json` does not list it"
        hint = "remove what was put into the run folder"
    if names:
        more = f" ({len(names)} such files in all)" if len(names) > 1 else ""
        raise RunError("E503", f"`{store.show(names[0])}` {problem}{more}", hint=hint)
    for name, told in listed.items():
        if (size := there[name].size) != told["bytes"]:
            why = f"it has {size:,} bytes, `run.json` says {told['bytes']:,}"
            raise refuse_changed(store.show(name), why)


def require_content(store: RunStore, file: RunFile, told: Mapping[str, Any]) -> None:
    """Raise E503 unless a table has the tag of the list, or else its SHA-256 and its number of
    rows.
    """
    if file.tag and file.tag == told.get("tag"):
        return
    require_digest(store.show(file.name), store.digest(file), told["sha256"])
    if (rows := store.count_rows(file)) != told["rows"]:
        why = f"it has {rows:,} rows, `run.json` says {told['rows']:,}"
        raise refuse_changed(store.show(file.name), why)


def find_digest(listed: Listed | None, name: str) -> str | None:
    """Return the SHA-256 of a file by the list; None without one."""
    return None if listed is None or name not in listed else str(listed[name]["sha256"])


def read_metric_value(stored: Mapping[str, Any]) -> MetricValue:
    """Return a metric value from its stored form."""
    groups = [
        Groups(
            one["column"],
            tuple(_restore(GroupValue, value) for value in one["values"]),
            _restore(GroupValue, one["macro"]),
        )
        for one in stored.get("groups") or ()
    ]
    return replace(_restore(MetricValue, stored), groups=tuple(groups))


def _restore(kind: type[T], stored: Mapping[str, Any]) -> T:
    """Return a value from its stored fields; those that a newer release added are passed over."""
    values = {one.name: stored[one.name] for one in fields(kind) if one.name in stored}  # type: ignore[arg-type]
    if (interval := values.get("interval")) is not None:
        values["interval"] = (interval[0], interval[1])
    return kind(**values)


def describe_gates(gates: Sequence[Gate]) -> list[dict[str, Any]]:
    """Return gates as plain values; what is not known is left out."""
    return [
        _drop_unknown(
            asdict(gate) | {"checks": [_drop_unknown(asdict(one)) for one in gate.checks]}
        )
        for gate in gates
    ]


def _drop_unknown(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None and value != {}}


def leave_open(policy: str, rule: Mapping[str, Any], note: str) -> Gate:
    """Return the gate of a rule, as the files state it, that is not decided."""
    return Gate(
        policy=policy,
        rule=rule["key"],
        status=GateStatus.NOT_DECIDED,
        definition=rule["definition"],
        display_name=rule["display_name"],
        description=rule.get("description"),
        note=note,
    )


def _read_gate(stored: Mapping[str, Any]) -> Gate:
    checks = [
        replace(_restore(GateCheck, one), status=GateStatus(one["status"]))
        for one in stored.get("checks") or ()
    ]
    return replace(
        _restore(Gate, stored), status=GateStatus(stored["status"]), checks=tuple(checks)
    )
