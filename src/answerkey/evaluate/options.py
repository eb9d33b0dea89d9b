"""The options of `run`, `score`, `check` and their Python functions, declared once."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar

from answerkey.datasets.dataset import Selection
from answerkey.datasets.sources import MemorySource
from answerkey.datasets.storage import allow_fetching, hide_query, name_lasting
from answerkey.datasets.tables import Tabular, load_rows
from answerkey.errors import SpecError, is_url, listing, suggest
from answerkey.models.config import CachePolicy, FunctionConfig, ModelConfig, Price
from answerkey.spec import Overrides

#: What a resumed run takes over from its folder, and nothing else. Trust, allowed hosts and
#: environment files are the caller's to give again: a folder from elsewhere must not run code, or
#: choose who gets a key.
STORED = (
    "config",
    "model",
    "dataset",
    "completions",
    "completion_column",
    "num_samples",
    "subsampling",
    "seed",
    "allow_failed",
    "engine",
    "ray_address",
    "copy",
    "cache_policy",
    "max_calls",
    "max_cost",
    "price",
    "batch",
    "max_concurrent",
    "split_thinking",
)
MILLION = 1_000_000
PERCENT = 100
_NUMBER = r"\s*(\d+(?:\.\d+)?)\s*"
_PRICE = re.compile(f"{_NUMBER}:{_NUMBER}(?::{_NUMBER})?")
_FAILED = re.compile(r"\s*(?:(?P<share>\d+(?:\.\d+)?)\s*%|(?P<number>\d+(?:\.\d+)?))\s*")
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Options(Overrides):
    """The options of `run`, `score`, `check` and `plan_calls`; they win over what the files say.

    `allow_failed` is a number of rows or a share such as `"2%"`. `max_cost` is in USD, and `price`
    says what a million tokens cost, `"IN:OUT"` or `"IN:OUT:CACHED"`, where that is not known. With
    `batch`, the calls of a solver are submitted together. Unless
    `stop_on_nonsense` is False, a run stops when most of the first 50 completions of an endpoint
    cannot be read. With the engine `ray`, `ray_address` names a cluster;
    without it one is started here. `max_concurrent` limits how many calls are open at once.
    """

    allow_failed: int | str | None = None
    trust_code: bool = False
    engine: str = "local"
    ray_address: str | None = None
    copy: bool = False
    cache_policy: CachePolicy | None = None
    max_calls: int | None = None
    max_cost: float | None = None
    price: str | None = None
    stop_on_nonsense: bool | None = None
    batch: bool | None = None
    max_concurrent: int | None = None

    def __post_init__(self) -> None:
        # A value that cannot be read is reported before anything is opened.
        if self.allow_failed is not None:
            self.failed_limit(0)
        if self.price is not None:
            self.parse_price()
        if self.max_concurrent is not None and self.max_concurrent < 1:
            message = f"`max_concurrent` is {self.max_concurrent}; it must be at least 1"
            raise SpecError("E119", message)

    def stored(self) -> dict[str, object]:
        """Return what a resumed run takes over, as plain values; paths are absolute."""
        values: dict[str, object] = {}
        for name in STORED:
            value = getattr(self, name)
            if name == "model" and value is not None:
                value = self.model_name
            if name in {"dataset", "completions"}:
                # A table in memory is stored among the run's own files.
                value = name_path(value) if isinstance(value, str | Path) else None
            if value is not None:
                values[name] = value
        plain: dict[str, object] = json.loads(json.dumps(values, default=str))
        return plain

    def failed_limit(self, rows: int) -> int:
        """Return how many of `rows` may be FAILED."""
        if self.allow_failed is None:
            return 0
        match = _FAILED.fullmatch(str(self.allow_failed))
        if match and match["share"]:
            percent = float(match["share"])
            if percent <= PERCENT:
                return int(percent / PERCENT * rows)
        elif match and float(match["number"]).is_integer():
            return int(float(match["number"]))
        message = f"`--allow-failed {self.allow_failed}` is neither a number of rows nor a share"
        hint = "write `--allow-failed 5` or `--allow-failed 2%`"
        raise SpecError("E119", message, hint=hint)

    def selection(self) -> Selection:
        """Return which rows are used."""
        chosen = {}
        for name in ("num_samples", "subsampling", "seed"):
            value = getattr(self, name)
            if value is not None:
                chosen[name] = value
        return Selection(**chosen)

    def parse_price(self) -> Price | None:
        """Return what one token costs by the caller's own statement; None without one."""
        if self.price is None:
            return None
        match = _PRICE.fullmatch(self.price)
        if not match:
            message = f"`--price {self.price}` is not of the form `IN:OUT` or `IN:OUT:CACHED`"
            hint = "write what a million tokens cost in USD: `--price 0.15:0.60`"
            raise SpecError("E119", message, hint=hint)
        per_token = [float(amount) / MILLION for amount in match.groups() if amount is not None]
        return Price(*per_token)


def name_path(path: str | Path) -> str:
    """Return the name of a file as a run stores it: absolute, and an address without secrets."""
    if is_url(str(path)):
        return hide_query(str(path))
    return name_lasting(path)


class ScoreOptions(TypedDict, total=False):
    """The options of Python's functions, as in `Options`; a model may be a function."""

    config: Mapping[str, object] | None
    model: str | Callable[[list[dict[str, Any]]], object] | None
    completion_column: str | None
    split_thinking: bool | None
    columns: Mapping[str, str]
    num_samples: int | None
    subsampling: Literal["head", "random"] | None
    seed: int | None
    env: str | Path | None
    allow_outside: bool
    allow_hosts: Sequence[str]
    policies: str | Path | Mapping[str, object] | Sequence[object] | None
    baseline: str | Path | None
    fail_under: float | str | None
    not_worse_than: str | Path | None
    allow_failed: int | str | None
    trust_code: bool
    engine: str
    ray_address: str | None
    copy: bool
    cache_policy: CachePolicy | None
    max_calls: int | None
    max_cost: float | None
    price: str | None
    stop_on_nonsense: bool | None
    batch: bool | None
    max_concurrent: int | None


class RunOptions(ScoreOptions, total=False):
    """The options of functions that are not given samples and completions.

    A dataset may be a table.
    """

    dataset: Tabular | str | Path | None
    completions: str | Path | None


def show_options(kind: Any) -> Callable[[Function], Function]:  # noqa: ANN401 - a TypedDict
    """Return a decorator that lists the options of `kind` in the signature that `help` shows."""

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        parameters = list(signature.parameters.values())[:-1]  # the last one is `**options`
        for name, hint in kind.__annotations__.items():
            default = getattr(Options, name, None)
            parameter = inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=default,
                annotation=getattr(hint, "__forward_arg__", hint),
            )
            parameters.append(parameter)
        function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return function

    return decorate


def refuse_unknown(
    function: str,
    names: Iterable[str],
    options: Collection[str],
    *arguments: str,
) -> None:
    """Raise TypeError for options that a function does not have beside its `arguments`."""
    for name in names:
        if name in options:
            continue
        hint = suggest(name, [*options, *arguments])
        if not hint:
            hint = f"options: {listing(options, limit=len(options))}"
        raise TypeError(f"`{function}` has no option `{name}`; {hint}")


def read_options(function: str, options: Mapping[str, object], kind: Any = RunOptions) -> Options:  # noqa: ANN401 - a TypedDict
    """Return the options of a function; TypeError for one that it does not have.

    A Python function becomes the config of a model, a table a source of rows.
    """
    if not options.keys() <= kind.__optional_keys__:
        names = [field.name for field in fields(Options) if field.name in kind.__optional_keys__]
        refuse_unknown(function, options, names, "completions")
    values: dict[str, Any] = dict(options)
    model = values.get("model")
    if callable(model):
        config = FunctionConfig(model)
        values["model"] = ModelConfig(config.name, config)
    elif not isinstance(model, str | ModelConfig | None):
        message = f"`model` is a {type(model).__name__}: give a name, or a function of the messages"
        raise TypeError(message)
    completions = values.get("completions")
    if not isinstance(completions, str | Path | None):
        message = f"`completions` is a {type(completions).__name__}: give a file, or use `ak.score`"
        raise TypeError(message)
    dataset = values.get("dataset")
    if not isinstance(dataset, str | Path | MemorySource | None):
        values["dataset"] = MemorySource(load_rows(dataset, name="dataset"))
    allow_fetching(*values.get("allow_hosts", ()))
    return Options(**values)
