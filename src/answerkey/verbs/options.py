"""What the caller may say beside the file: one set of options for every verb."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from answerkey.errors import SpecError
from answerkey.spec import Overrides


@dataclass(frozen=True)
class Options:
    """The options of `run`, `score`, `check` and `plan_calls`; they win over what the files say.

    `allow_failed` is a number of rows or a share such as `"2%"`; `env` replaces the `.env` beside the file.
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
    copy: bool = False

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
        )

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
        return int(float(match[1]) / 100 * rows) if match[2] else int(match[1])


def stay_silent(stage: str, done: int, total: int) -> None:
    """Take progress and say nothing."""
