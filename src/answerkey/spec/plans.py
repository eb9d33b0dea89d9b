"""What a run is to do: specifications, each a task with its dataset, model and rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Literal, TypeVar

from answerkey.datasets import Selection
from answerkey.errors import AnswerkeyError
from answerkey.models import ModelConfig
from answerkey.sandbox import Snippet
from answerkey.spec.policies import Policy
from answerkey.spec.sources import DatasetSpec
from answerkey.spec.tasks import Task
from answerkey.types import Notice

T = TypeVar("T")


#: The variant that has the task's own prompt.
BASE = "base"


@dataclass(frozen=True)
class Variant:
    """Which variant of which specification this is; both by their keys."""

    of: str
    key: str


@dataclass(frozen=True)
class Specification:
    """One task to run. `model` is for `open_model`; None when no model is asked, or none is named.

    `model_key` is how the files call the model, also when recorded completions make asking it unnecessary;
    `completions` is the file that has them, and `model_name` the name of the model that wrote them.
    `judges` are the models of scorers that ask one, by the scorer's key, for `open_model` as well.
    The whole specification is run `num_runs` times.
    """

    key: str
    task: Task
    dataset: DatasetSpec
    display_name: str | None = None
    model: str | ModelConfig | None = None
    model_key: str | None = None
    model_name: str | None = None
    selection: Selection = field(default_factory=Selection)
    examples: DatasetSpec | None = None
    num_runs: int = 1
    judges: Mapping[str, str | ModelConfig] = field(default_factory=dict)
    variant: Variant | None = None
    completions: Path | str | None = None

    @property
    def snippets(self) -> tuple[Snippet, ...]:
        """The user's code that would run: of the task, and of models that are snippets."""
        models = [one for one in (self.model, *self.judges.values()) if isinstance(one, ModelConfig)]
        return (*self.task.snippets, *(snippet for one in models for snippet in one.snippets))


@dataclass(frozen=True)
class Plan:
    """All specifications of a run; `project` is the folder of the file given by the caller."""

    key: str
    specifications: tuple[Specification, ...]
    project: Path
    file: str
    display_name: str | None = None
    description: str | None = None
    cache_policy: str | None = None
    policies: tuple[Policy, ...] = ()


@dataclass(frozen=True)
class Overrides:
    """What the caller says beside the file; it wins over what the file says.

    `config` values that are text are read by the declared type of their parameter. `completions` being set
    means that no model is asked. `allow_hosts` may be sent the caller's keys when a file names them.
    `policies` (a file, or plain values) replace those of the run file; `baseline` is the folder of a run.
    `environment` stands in for the process environment.
    """

    config: Mapping[str, object] = field(default_factory=dict)
    model: str | None = None
    dataset: str | Path | None = None
    completions: str | Path | None = None
    num_samples: int | None = None
    subsampling: Literal["head", "random"] | None = None
    seed: int | None = None
    stratify_by: str | None = None
    policies: str | Path | Mapping[str, object] | Sequence[object] | None = None
    baseline: str | Path | None = None
    env_file: str | Path | None = None
    allow_outside: bool = False
    allow_hosts: tuple[str, ...] = ()
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    environment: Mapping[str, str] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Loaded(Generic[T]):
    """What was read: as much as could be built, and every error and notice on the way."""

    value: T | None
    errors: list[AnswerkeyError]
    notices: list[Notice]
