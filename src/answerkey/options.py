"""The options of a run, each declared once: `Options` for Python, its fields' declarations for the
command line, and which of them `run.json` keeps.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from answerkey.errors import SpecError

if TYPE_CHECKING:  # the help of a command needs no library for tables
    from answerkey.datasets.dataset import Selection
    from answerkey.datasets.sources import Source
    from answerkey.models.config import CachePolicy, ModelConfig, Price

Location = str | Path
#: The options of gates.
GATES = ("policies", "baseline", "fail_under", "not_worse_than")
MILLION = 1_000_000
PERCENT = 100
_NUMBER = r"\s*(\d+(?:\.\d+)?)\s*"
_PRICE = f"{_NUMBER}:{_NUMBER}(?::{_NUMBER})?"
_FAILED = r"\s*(?:(?P<share>\d+(?:\.\d+)?)\s*%|(?P<number>\d+(?:\.\d+)?))\s*"


class Declaration(NamedTuple):
    """How an option is given to a command, and whether a resumed run takes it over.

    `text` is its help. `metavar` stands for its value; without one it is a flag, which may have an
    opposite. `choices` are all values there are. `flag` is there where it is not the name with
    hyphens.
    """

    text: str = ""
    metavar: str = ""
    flag: str = ""
    choices: tuple[str, ...] = ()
    has_opposite: bool = False
    is_stored: bool = True


def option(
    text: str = "",
    metavar: str = "",
    *,
    default: object = None,
    factory: Any = MISSING,  # noqa: ANN401 - what `field` takes
    **more: Any,  # noqa: ANN401 - of Declaration
) -> Any:  # noqa: ANN401 - what `field` returns
    """Return a field of `Options` with its declaration."""
    declared = {"option": Declaration(text, metavar, **more)}
    if factory is not MISSING:
        return field(default_factory=factory, metadata=declared)
    return field(default=default, metadata=declared)


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

    config: Mapping[str, object] = option(
        "Set a config value; repeatable.",
        "K=V",
        factory=dict,
    )
    model: str | ModelConfig | None = option(
        "Model to call; repeatable, one run for each.",
        "NAME",
    )
    dataset: Location | Source | None = option(
        "Dataset to use in place of the one in FILE.",
        "FILE",
    )
    completions: Location | None = option(
        "Score the completions recorded in this file.",
        "FILE",
    )
    completion_column: str | None = option(
        "Column of completions, such as `completions.my-model`; repeatable, one run each.",
        "NAME",
    )
    columns: Mapping[str, str] = option(
        "Name a column of a data file: `truth=answer:0`, `passage=` for none; repeatable.",
        "PART=NAME",
        flag="--column",
        is_stored=False,
        factory=dict,
    )
    num_samples: int | None = option(
        "Use only N samples.",
        "N",
    )
    subsampling: Literal["head", "random"] | None = option(
        "head or random: which N samples to use.",
        "HOW",
        choices=("head", "random"),
    )
    seed: int | None = option(
        "Seed of random subsampling.",
        "N",
    )
    env: Location | None = option(
        "Read environment values from FILE, not from the `.env` beside the project.",
        "FILE",
        is_stored=False,
    )
    allow_outside: bool = option(
        "Allow FILE to use files outside its folder.",
        is_stored=False,
        default=False,
    )
    allow_hosts: tuple[str, ...] = option(
        "Allow FILE to send your keys to, or read datasets from, this host; repeatable.",
        "HOST",
        flag="--allow-host",
        is_stored=False,
        default=(),
    )
    policies: Location | Mapping[str, object] | Sequence[object] | None = option(
        "Policy file to use in place of the run's own policies.",
        "FILE",
        is_stored=False,
    )
    baseline: Location | None = option(
        "Baseline run: fail if this run is significantly worse.",
        "RUN",
        is_stored=False,
    )
    fail_under: float | str | None = option(
        "Fail if the main value is below X: 0.8 or 80%.",
        "X",
        is_stored=False,
    )
    not_worse_than: Location | None = option(
        "Fail if significantly worse than RUN on the same samples.",
        "RUN",
        is_stored=False,
    )
    allow_failed: int | str | None = option(
        "Accept up to N (or N %) FAILED samples, and score the rest.",
        "N|N%",
    )
    trust_code: bool = option(
        "Run the task's Python snippets, and trust them from now on.",
        is_stored=False,
        default=False,
    )
    engine: str = option(
        "local or ray: where chunks are evaluated.",
        "NAME",
        choices=("local", "ray"),
        default="local",
    )
    ray_address: str | None = option(
        "With `--engine ray`: the cluster, HOST:PORT or auto.",
        "ADDRESS",
    )
    copy: bool = option(
        "Copy recorded completions into the run folder.",
        default=False,
    )
    cache_policy: CachePolicy | None = option(
        "no-cache (default), update (write the call cache) or reuse (read and write it).",
        "POLICY",
        choices=("no-cache", "update", "reuse"),
    )
    max_calls: int | None = option(
        "Make at most N calls, then stop.",
        "N",
    )
    max_cost: float | None = option(
        "Stop before the calls cost more than this.",
        "USD",
    )
    price: str | None = option(
        "Price of a million prompt and completion tokens in USD; `:CACHED` for cached ones.",
        "IN:OUT",
    )
    stop_on_nonsense: bool | None = option(
        "Stop if most of the first 50 replies are INVALID; on by default.",
        has_opposite=True,
        is_stored=False,
    )
    batch: bool | None = option(
        "Send the calls through the provider's batch API, which is slower and cheaper.",
        has_opposite=True,
    )
    max_concurrent: int | None = option()
    split_thinking: bool | None = option(
        "Take thinking blocks such as `<think>…</think>` out of recorded completions.",
    )

    @property
    def states_gates(self) -> bool:
        """Whether the caller sets an option of gates."""
        return any(getattr(self, name) is not None for name in GATES)

    @property
    def model_name(self) -> str | None:
        """The name of the caller's model."""
        if self.model is None or isinstance(self.model, str):
            return self.model
        return self.model.name

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
        from answerkey.datasets.storage import name_lasting

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
        match = re.fullmatch(_FAILED, str(self.allow_failed))
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
        from answerkey.models.config import Price

        if self.price is None:
            return None
        match = re.fullmatch(_PRICE, self.price)
        if not match:
            message = f"`--price {self.price}` is not of the form `IN:OUT` or `IN:OUT:CACHED`"
            hint = "write what a million tokens cost in USD: `--price 0.15:0.60`"
            raise SpecError("E119", message, hint=hint)
        per_token = [float(amount) / MILLION for amount in match.groups() if amount is not None]
        return Price(*per_token)


DECLARATIONS: Mapping[str, Declaration] = {
    entry.name: entry.metadata["option"] for entry in fields(Options)
}
#: What a resumed run takes over from its folder, and nothing else. Trust, allowed hosts and
#: environment files are the caller's to give again: a folder from elsewhere must not run code, or
#: choose who gets a key.
STORED = tuple(name for name, declared in DECLARATIONS.items() if declared.is_stored)
