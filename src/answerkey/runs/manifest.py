"""The models of `run.json` and `metrics.json`, which are checked whenever a run is read.

A run folder may be damaged, or come from a stranger. Content that passes these models is safe to
show and to compute with; unknown fields are allowed and left alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from answerkey.errors import RunError
from answerkey.types import Gate, GroupValue, MetricValue

#: No run has so many samples, calls or tokens.
_LIMIT = 2**63
#: Larger numbers could become infinite in a computation.
_LARGEST = 1e100
_MAX_SHOWN = 60
#: A single part of a path, but not `.` or `..`.
_FOLDER_NAME = r"^[^/\\\x00-\x1f]*[^./\\\x00-\x1f][^/\\\x00-\x1f]*$"


Count = Annotated[int, Field(ge=0, lt=_LIMIT)]
Positive = Annotated[int, Field(gt=0, lt=_LIMIT)]
Number = Annotated[float, Field(gt=-_LARGEST, lt=_LARGEST)]
Counted = dict[str, Count]
Values = dict[str, Any]


class Stored(BaseModel):
    """An object of a JSON file of a run."""

    model_config = ConfigDict(strict=True, defer_build=True)


# ── run.json


class ModelEntry(Stored):
    """The model that was called."""

    name: str
    simulated: bool = False


class DatasetEntry(Stored):
    """The dataset of a task."""

    key: str
    fingerprint: str
    display_name: str | None
    file: str | None
    category: str | None
    rows_read: Count
    rows_filtered: Count
    samples: Count


class CompletionsEntry(Stored):
    """Where the completions of a task come from."""

    source: str
    file: str | None
    sha256: str | None
    column: str | None
    model: str | None = None
    split_thinking: bool = False


class SelectionEntry(Stored):
    """Which samples of the dataset were used; its fields are the parameters of a function."""

    model_config = ConfigDict(extra="forbid")

    num_samples: Count | None
    subsampling: Literal["head", "random"]
    seed: int
    stratify_by: str | None


class PriceEntry(Stored):
    """What a million tokens cost."""

    prompt: Number
    completion: Number
    cached: Number | None
    written: Number | None


class CallsEntry(Stored):
    """The calls for one purpose."""

    calls: Count
    price: PriceEntry | None = None
    oldest_seconds: Number | None = None


class ScorerEntry(Stored):
    """A scorer of a task."""

    key: str
    type: str = ""
    title: str = ""
    display_name: str | None = None
    model: ModelEntry | None = None


class TrialsEntry(Stored):
    """How many completions each sample has, and how their scores are aggregated."""

    num_trials: Positive
    score_aggregators: list[Values]


class RepeatabilityEntry(Stored):
    """How often a task was run."""

    num_runs: Positive


class Counts(Stored):
    """The number of samples with each outcome."""

    samples: Count
    scored: Count
    valid: Count
    invalid: Count
    refused: Count
    declined: Count
    failed: Count
    errors: Count


class TaskEntry(Stored):
    """A task of a run; its key is the name of its folder, so it must not be a path."""

    key: Annotated[str, Field(pattern=_FOLDER_NAME, max_length=300)]
    display_name: str | None
    task: Values
    dataset: DatasetEntry
    model: ModelEntry | None
    completions: CompletionsEntry
    config: Values
    scorers: list[ScorerEntry]
    selection: SelectionEntry
    counts: Counts | None
    encoded: dict[str, list[str]] = {}
    calls: dict[str, CallsEntry] = {}
    trials: TrialsEntry | None = None
    repeatability: RepeatabilityEntry | None = None
    choice_order: Values = {}
    variant: Values = {}


class StoredFile(Stored):
    """A file below `tasks`."""

    bytes: Count
    sha256: str


class StopEntry(Stored):
    """What stopped a run before its end."""

    message: str
    code: str | None


class Origin(Stored):
    """The run whose completions were scored again."""

    path: str | None
    started_at: str | None


class Rule(Stored):
    """A rule of a policy."""

    key: str
    display_name: str
    definition: Values


class Policy(Stored):
    """A policy, as the files state it."""

    key: str
    rules: list[Rule]


class Manifest(Stored):
    """The content of `run.json`."""

    key: str
    display_name: str
    status: Literal["running", "complete", "incomplete"]
    started_at: AwareDatetime
    ended_at: AwareDatetime | None = None
    notices: list[str]
    tasks: list[TaskEntry]
    files: dict[str, StoredFile] | None = None
    stopped: StopEntry | None = None
    gates: list[Gate] = []
    policies: list[Policy] = []
    options: Values = {}
    file: str | None = None
    matrix: list[str] = []
    rescored_from: Origin | None = None

    @model_validator(mode="after")
    def _require_files(self) -> Self:
        if self.files is None and self.status != "running":
            raise ValueError("a run that has ended lists its `files`")
        return self


# ── metrics.json


class Example(Stored):
    """An example sample of a reason."""

    sample_id: str
    completion: str | None = None
    message: str | None = None


class Reason(Stored):
    """The number of samples with one reason, and an example."""

    count: Positive
    example: Example


Reasons = dict[str, Reason]


class Category(Stored):
    """The right answers of one category."""

    n: Positive
    correct: Count
    partial: Count

    @model_validator(mode="after")
    def _require_part(self) -> Self:
        if self.correct + self.partial > self.n:
            raise ValueError("a category has no more right samples than samples")
        return self


class RuleReadings(Stored):
    """The results of one extraction rule on some completions."""

    correct: Annotated[Number, Field(ge=0)]
    invalid: Count


class Readings(Stored):
    """Some completions, read by every extraction rule."""

    n: Count
    samples: Count
    own_rule: Counted
    rules: dict[str, RuleReadings]

    @model_validator(mode="after")
    def _require_parts(self) -> Self:
        if self.n and not (self.own_rule and "own" in self.rules):
            raise ValueError("completions were read, but not by the rule of the task")
        for rule in self.rules.values():
            if max(rule.correct, rule.invalid) > self.n:
                raise ValueError("a rule cannot read more completions than there are")
        return self


class Fallback(Stored):
    """The contribution of a fallback model to one scorer."""

    n: Count
    right: Count
    invalid: Count
    asked: Count
    named: Count
    correct: Count
    failed: Count


class TrialCounts(Stored):
    """The outcomes of the trials."""

    num_trials: Positive
    counts: Counts


class OrderCountsEntry(Stored):
    """The outcomes of the questions with their options in other orders."""

    counts: Counts
    not_reordered: Counted = {}
    extra: Count = 0


class Tally(Stored):
    """The counts behind the summary of a task."""

    counts: Counts
    completion_statuses: Counted
    invalid: Reasons
    failed: Reasons
    errors: Reasons
    excluded: Counted
    letters: dict[str, Annotated[dict[str, Positive], Field(min_length=1)]]
    category_column: str | None
    categories: dict[str, Category]
    cut_off: Count = 0
    thinking: Count = 0
    doubted: Counted = {}
    choice_counts: dict[Annotated[str, Field(pattern="^[1-9][0-9]{0,17}$")], Count] = {}
    failures: dict[str, Reasons] = {}
    unscored: Count = 0
    readings: Annotated[Readings | None, BeforeValidator(lambda value: value or None)] = None
    fallback: dict[str, Fallback] = {}
    trials: TrialCounts | None = None
    orders: OrderCountsEntry | None = None

    @model_validator(mode="after")
    def _require_scored(self) -> Self:
        rows = self.orders or self.trials or self
        if self.invalid and not rows.counts.scored:
            raise ValueError("completions are invalid, but none was scored")
        return self


class Metrics(Stored):
    """The content of `metrics.json`."""

    metrics: list[MetricValue]
    tally: Tally

    @model_validator(mode="after")
    def _require_numbers(self) -> Self:
        for metric in self.metrics:
            _require_bounded(metric)
            for groups in metric.groups:
                for value in (groups.macro, *groups.values):
                    _require_bounded(value)
        return self


def _require_bounded(value: MetricValue | GroupValue) -> None:
    """Require counts and numbers that can be computed with."""
    for count in (value.n, *value.n_excluded.values()):
        if not 0 <= count < _LIMIT:
            raise ValueError(f"{count} cannot be a number of samples")
    for number in (value.value, value.std_error, *(value.interval or ())):
        if number is not None and not abs(number) < _LARGEST:
            raise ValueError(f"{number} cannot be the value of `metrics`")


# ── reading

Model = TypeVar("Model", bound=BaseModel)
#: Half of a surrogate pair, which no JSON reader accepts, so it is escaped.
_SURROGATE = re.compile("[\ud800-\udfff]")
_GATES = TypeAdapter(tuple[Gate, ...])


def require_shape(
    model: type[Model],
    content: Mapping[str, Any],
    file: str,
) -> Model:
    """Return the validated content of a JSON file; E503 names the first wrong field, and why."""
    try:
        return model.model_validate_json(_encode(content))
    except ValidationError as error:
        problem = _describe(error)
        hint = "the run folder is damaged, or answerkey did not write it"
        raise RunError(
            "E503", f"`{file}` is not a valid file of a run: {problem}", hint=hint
        ) from None


def restore_gates(stored: object) -> tuple[Gate, ...]:
    """Return gates from their stored form."""
    return _GATES.validate_json(_encode(stored))


def _encode(content: object) -> bytes:
    # As JSON, an object may become a dataclass and a list a tuple, however strict the types are.
    text = json.dumps(content, ensure_ascii=False)
    return _SURROGATE.sub(lambda match: f"\\\\u{ord(match[0]):04x}", text).encode()


def _describe(error: ValidationError) -> str:
    details = error.errors(include_url=False)[0]
    path = ""
    for step in details["loc"]:
        path += f"[{step}]" if isinstance(step, int) else f".{step}"
    path = path.removeprefix(".")
    if details["type"] == "missing":
        return f"it has no `{path}`"
    shown = repr(details["input"])
    if len(shown) > _MAX_SHOWN:
        shown = f"{shown[:_MAX_SHOWN]}…"
    reason = details["msg"].removeprefix("Value error, ").replace("Input should", "it should")
    return f"`{path}` is {shown}: {reason}"
