"""The options of Python's functions as type checkers see them; declared in `answerkey.options`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar

from answerkey.datasets.sources import MemorySource
from answerkey.datasets.storage import allow_fetching
from answerkey.datasets.tables import Tabular, load_rows
from answerkey.errors import listing, suggest
from answerkey.models.config import CachePolicy, Model, read_model
from answerkey.spec import Options

Function = TypeVar("Function", bound=Callable[..., Any])


class ScoreOptions(TypedDict, total=False):
    """The options of Python's functions, as in `Options`.

    A model may be a function, or an object with `complete`.
    """

    config: Mapping[str, object] | None
    model: str | Callable[[list[dict[str, Any]]], object] | Model | None
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
        refuse_unknown(
            function,
            options,
            names,
            "completions",
        )
    values: dict[str, Any] = dict(options)
    values["model"] = read_model(values.get("model"))
    completions = values.get("completions")
    if not isinstance(completions, str | Path | None):
        message = f"`completions` is a {type(completions).__name__}: give a file, or use `ak.score`"
        raise TypeError(message)
    dataset = values.get("dataset")
    if not isinstance(dataset, str | Path | MemorySource | None):
        values["dataset"] = MemorySource(load_rows(dataset, name="dataset"))
    allow_fetching(*values.get("allow_hosts", ()))
    return Options(**values)
