"""What the caller may say beside the file: one set of options for every verb."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal

from answerkey.datasets import name_lasting
from answerkey.datasets.downloads import hide_query
from answerkey.errors import SpecError, listing, suggest
from answerkey.models.calls import CachePolicy, Price
from answerkey.models.config import is_url
from answerkey.spec import Overrides

#: What a resumed run takes over from its folder, and nothing else. Trust, allowed hosts and environment files
#: are the caller's to give again: a folder from elsewhere must not run code, or choose who gets a key.
STORED = (
    *("config", "model", "dataset", "completions", "completion_column", "num_samples", "subsampling", "seed"),
    *("allow_failed", "engine", "ray_address", "copy", "cache_policy", "max_calls", "max_cost", "price"),
    "batch",
)
PATHS = ("dataset", "completions")
MILLION = 1_000_000
WHOLE = 100


@dataclass(frozen=True)
class Options:
    """The options of `run`, `score`, `check` and `plan_calls`; they win over what the files say.

    `allow_failed` is a number of rows or a share such as `"2%"`; `env` replaces the `.env` beside the file.
    `max_cost` is in USD, and `price` says what a million tokens cost, `"IN:OUT"`, where that is not known.
    With `batch`, the calls of a solver are handed in together. `policies` (a file, or plain values of the
    same form) replace those of the run file; `baseline` is the folder of a run to be no worse than. With the
    engine `ray`, `ray_address` names a cluster; without it one is started here.
    """

    config: Mapping[str, object] = field(default_factory=dict)
    model: str | None = None
    dataset: str | None = None
    completions: str | None = None
    completion_column: str | None = None
    num_samples: int | None = None
    subsampling: Literal["head", "random"] | None = None
    seed: int | None = None
    env: str | None = None
    allow_outside: bool = False
    allow_failed: int | str | None = None
    trust_code: bool = False
    engine: str = "local"
    ray_address: str | None = None
    copy: bool = False
    cache_policy: CachePolicy | None = None
    allow_hosts: tuple[str, ...] = ()
    max_calls: int | None = None
    max_cost: float | None = None
    price: str | None = None
    stop_on_nonsense: bool = False
    batch: bool | None = None
    policies: str | Path | Mapping[str, object] | Sequence[object] | None = None
    baseline: str | Path | None = None

    @property
    def brings_completions(self) -> bool:
        """Whether the completions are recorded ones, so that no model is needed."""
        return self.completions is not None or self.completion_column is not None

    def overrides(self) -> Overrides:
        """Return what the files are read with."""
        return Overrides(
            config=self.config,
            model=self.model,
            dataset=self.dataset,
            completions=self.completions or self.completion_column,
            num_samples=self.num_samples,
            subsampling=self.subsampling,
            seed=self.seed,
            env_file=self.env,
            allow_outside=self.allow_outside,
            allow_hosts=tuple(self.allow_hosts),
            policies=self.policies,
            baseline=self.baseline,
        )

    def stored(self) -> dict[str, object]:
        """Return what a resumed run takes over, as plain values; paths are absolute."""
        values = {name: value for name in STORED if (value := getattr(self, name)) is not None}
        values |= {name: _make_absolute(str(values[name])) for name in PATHS if name in values}
        plain: dict[str, object] = json.loads(json.dumps(values, default=str))
        return plain

    def failed_limit(self, rows: int) -> int:
        """Return how many of `rows` may be FAILED."""
        if self.allow_failed is None:
            return 0
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*", str(self.allow_failed))
        if not match or (not match[2] and "." in match[1]):
            raise SpecError(
                "E119",
                f"`--allow-failed {self.allow_failed}` is neither a number of rows nor a share",
                hint="write `--allow-failed 5` or `--allow-failed 2%`",
            )
        if match[2] and float(match[1]) > WHOLE:
            message = f"`--allow-failed {self.allow_failed}` is more than all rows"
            raise SpecError("E119", message, hint="write a share of at most `100%`, or a number of rows")
        return int(float(match[1]) / WHOLE * rows) if match[2] else int(match[1])

    def read_price(self) -> Price | None:
        """Return what one token costs, as the caller says; None when the caller does not."""
        if self.price is None:
            return None
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*:\s*(\d+(?:\.\d+)?)\s*", self.price)
        if not match:
            raise SpecError(
                "E119",
                f"`--price {self.price}` is not of the form `IN:OUT`",
                hint="write what a million tokens cost in USD, prompt and completion: `--price 0.15:0.60`",
            )
        return Price(float(match[1]) / MILLION, float(match[2]) / MILLION)


def _make_absolute(given: str) -> str:
    """Return a path that does not depend on the current folder; an address loses what may be secret in it."""
    return hide_query(given) if is_url(given) else name_lasting(given)


def read_options(verb: str, given: Mapping[str, object]) -> Options:
    """Return the options of a verb; TypeError for one that does not exist, as for any other argument."""
    known = [one.name for one in fields(Options)]
    for name in given:
        if name not in known:
            near = suggest(name, known) or f"options: {listing(known, limit=len(known))}"
            raise TypeError(f"`{verb}` has no option `{name}`; {near}")
    return Options(**given)  # type: ignore[arg-type]  # the fields of Options are the keyword arguments


def stay_silent(stage: str, done: int, total: int) -> None:
    """Take progress and say nothing."""
