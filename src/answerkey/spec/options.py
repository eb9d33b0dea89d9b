"""The options of a run, however they are given: on the command line, in Python or by `run.json`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from answerkey.datasets.dataset import Selection
from answerkey.datasets.sources import Source
from answerkey.datasets.storage import name_lasting
from answerkey.errors import SpecError
from answerkey.models.config import CachePolicy, ModelConfig, Price
from answerkey.spec.nodes import Location

#: The options of gates.
GATES = ("policies", "baseline", "fail_under", "not_worse_than")
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


@dataclass(frozen=True)
class Options:
    """The options of `run`, `score`, `check` and `plan_calls`; they win over what the files say.

    `config` values that are text are read by the declared type of their parameter. `columns` says
    which columns of a data file, given in place of a task, are what: role to name. With
    `split_thinking`, thoughts are taken out of the texts of recorded completions. `env` replaces
    the `.env` beside the file. `allow_hosts` may be sent the caller's keys, or read from, when a
    file names them. `policies` (a file, or plain values of the same form) replace those of the run
    file; `baseline` is the folder of a run to be no worse than. `fail_under` (0.8, "80%") and
    `not_worse_than` (a run folder) are gates of their own.

    `allow_failed` is a number of rows or a share such as `"2%"`. `max_cost` is in USD, and `price`
    says what a million tokens cost, `"IN:OUT"` or `"IN:OUT:CACHED"`, where that is not known. With
    `batch`, the calls of a solver are submitted together. Unless `stop_on_nonsense` is False, a run
    stops when most of the first 50 completions of an endpoint cannot be read. With the engine
    `ray`, `ray_address` names a cluster; without it one is started here. `max_concurrent` limits
    how many calls are open at once.
    """

    config: Mapping[str, object] = field(default_factory=dict)
    model: str | ModelConfig | None = None
    dataset: Location | Source | None = None
    completions: Location | None = None
    completion_column: str | None = None
    split_thinking: bool | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    num_samples: int | None = None
    subsampling: Literal["head", "random"] | None = None
    seed: int | None = None
    env: Location | None = None
    allow_outside: bool = False
    allow_hosts: tuple[str, ...] = ()
    policies: Location | Mapping[str, object] | Sequence[object] | None = None
    baseline: Location | None = None
    fail_under: float | str | None = None
    not_worse_than: Location | None = None
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

    @property
    def states_gates(self) -> bool:
        """Whether the caller sets an option of gates."""
        return any(getattr(self, name) is not None for name in GATES)

    @property
    def model_name(self) -> str | None:
        """The name of the caller's model."""
        if isinstance(self.model, ModelConfig):
            return self.model.name
        return self.model

    @property
    def brings_completions(self) -> bool:
        """Whether the completions are recorded, so that no model is needed."""
        return self.completions is not None or self.completion_column is not None

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
                value = name_lasting(value) if isinstance(value, str | Path) else None
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

    def select(self, base: Selection) -> Selection:
        """Return which rows are used: those of `base`, unless the caller says otherwise."""
        chosen = {}
        for name in ("num_samples", "subsampling", "seed"):
            value = getattr(self, name)
            if value is not None:
                chosen[name] = value
        return replace(base, **chosen)

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
