"""A task with nothing left to look up: config filled, old names carried over, templates compiled."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from answerkey.errors import Place
from answerkey.metrics import KeyedMetric, Trials
from answerkey.sandbox import Snippet
from answerkey.scorers import Action, Scorer, compile_templates
from answerkey.solvers import ChoiceOrder, Solver, option_texts
from answerkey.spec.nodes import Places, ScalarNode
from answerkey.templates import Template
from answerkey.types import Known, Purpose, Samples

#: What a reader sees but no number depends on.
_WORDS_ONLY = frozenset({"display_name", "description", "long_description"})


@dataclass(frozen=True)
class ScoringStep:
    """A scorer with its key (unique in the task), its purpose, and the metrics over its scores.

    `index` is its place in the file's list of scorers.
    """

    key: str
    scorer: Scorer
    metrics: tuple[KeyedMetric, ...]
    purpose: Purpose = "score"
    display_name: str | None = None
    index: int = 0


@dataclass(frozen=True)
class Task:
    """What is asked and how replies are scored.

    `config` holds the values of its parameters and `dataset_columns` those that name columns, both by
    parameter key; `source` is the resolved task as plain JSON, from which `task_from_source` builds it again.
    """

    key: str
    display_name: str
    description: str
    scoring: tuple[ScoringStep, ...]
    fingerprint: str
    source: Mapping[str, object] = field(repr=False)
    long_description: str | None = None
    tags: tuple[str, ...] = ()
    config: Mapping[str, object] = field(default_factory=dict)
    dataset_columns: Mapping[str, str] = field(default_factory=dict)
    dataset_key: str | None = None
    solver: Solver | None = None
    actions: tuple[Action, ...] = ()
    trials: Trials | None = None
    choice_order: ChoiceOrder | None = None
    snippets: tuple[Snippet, ...] = ()
    file: str | None = None
    places: Places = field(
        default_factory=lambda: Places(ScalarNode(None, Place())), repr=False, compare=False
    )
    config_places: Mapping[str, Place] = field(default_factory=dict, repr=False, compare=False)

    @property
    def main_step(self) -> ScoringStep:
        """The scorer whose counts stand for the task: the first with purpose `score`, else the first."""
        return next((step for step in self.scoring if step.purpose == "score"), self.scoring[0])

    @property
    def num_trials(self) -> int:
        """How often each sample is asked."""
        return self.trials.num_trials if self.trials else 1

    @property
    def design_columns(self) -> tuple[str, ...]:
        """The dataset columns by which metrics group or cluster samples, each once."""
        designs = [one.design for step in self.scoring for one in step.metrics]
        return tuple(dict.fromkeys(name for design in designs for name in design.columns))

    def know(self, samples: Samples) -> Known | None:
        """Return what the first scorer that knows anything knows: choices, truths, option texts."""
        known = next((one for step in self.scoring if (one := step.scorer.sample_facts(samples))), None)
        if known is None or self.choice_order is None or any(known.options):
            return known
        return replace(known, options=option_texts(self.choice_order, samples, known.choices))

    def place(self, *path: str | int) -> Place:
        """Return where a part of the task stands; `("config_spec", name)` is where that value was given."""
        if len(path) > 1 and path[0] == "config_spec" and path[1] in self.config_places:
            return self.config_places[str(path[1])]
        return self.places(path)

    def templates(self) -> Iterator[tuple[str, Template]]:
        """Yield every template that is evaluated per row, with the name of its field."""
        if self.solver is not None:
            yield from ((f"solver.{name}", one) for name, one in self.solver.compile_templates()[0].items())
        for step in self.scoring:
            compiled, _ = compile_templates(step.scorer)
            yield from ((f"{step.key}.{name}", one) for name, one in compiled.items())
        for action in self.actions:
            yield f"action {action.key}.expression", action.filter.template


def hash_definition(definition: object) -> str:
    """Return the SHA-256 of a resolved definition; names and descriptions for readers do not count."""
    text = json.dumps(_strip_words(definition), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _strip_words(value: object) -> object:
    if isinstance(value, Mapping):
        return {
            key: _strip_words(entry)
            for key, entry in value.items()
            if key not in _WORDS_ONLY and entry is not None
        }
    if isinstance(value, list | tuple):
        return [_strip_words(entry) for entry in value]
    return value
