"""Policies: rules that a run's numbers are held against, and what each kind of rule needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal

from answerkey.errors import Place, SpecError

Operator = Literal[">", ">=", "=", "<", "<="]
Bound = Literal["value", "lower", "upper"]
ShareName = Literal["invalid", "refused", "failed", "error"]

#: Words of the original platform for "every task of the run".
EVERYWHERE = "all_latest"
#: What stands for a rule that `--baseline` brings along.
BASELINE_KEY = "baseline"
ALPHA = 0.05


@dataclass(frozen=True)
class Threshold:
    """Every value of a name stands right of or left of a threshold: itself, or an end of its interval.

    With `group_by` the values of all groups must, or with `average: macro` their average.
    """

    metric: str
    operator: Operator
    threshold: float
    bound: Bound = "value"
    group_by: str | None = None
    average: Literal["macro"] | None = None

    type: ClassVar[str] = "threshold"

    def __post_init__(self) -> None:
        _require_finite(self.threshold)
        if self.average is not None and self.group_by is None:
            hint = "write `group_by: COLUMN` beside it"
            raise SpecError("E108", "`average` needs to know over which groups", hint=hint)


@dataclass(frozen=True)
class Exists:
    """There is a value of a name."""

    metric: str

    type: ClassVar[str] = "exists"


@dataclass(frozen=True)
class ShareLimit:
    """A share of samples: INVALID and REFUSED ones of those scored, FAILED and ERROR ones of all."""

    of: ShareName
    operator: Operator
    threshold: float

    type: ClassVar[str] = "share"

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            message = f"`threshold` is {self.threshold!r}; a share lies between 0 and 1"
            raise SpecError("E108", message, hint="write 0.05 for 5 %")


@dataclass(frozen=True)
class NotWorse:
    """The run is not significantly worse than a baseline on the same samples.

    With `margin`, it is shown not to be worse by more than that: the whole interval of the difference lies
    above. `baseline` is the folder of a run; None when nobody names one.
    """

    baseline: str | None = None
    metric: str | None = None
    alpha: float | None = None
    margin: float | None = None
    better: Literal["higher", "lower"] = "higher"

    type: ClassVar[str] = "not_worse"

    def __post_init__(self) -> None:
        if self.alpha is not None and not 0 < self.alpha < 1:
            message = f"`alpha` is {self.alpha!r}; it must lie between 0 and 1"
            raise SpecError("E108", message, hint=f"leave it out for {ALPHA}")
        if self.margin is not None and not 0 <= self.margin < float("inf"):
            raise SpecError("E108", f"`margin` is {self.margin!r}; it must be 0 or more")
        if self.margin is not None and self.alpha is not None:
            hint = "leave one of them out: a margin is held against the 95 % interval"
            raise SpecError("E108", "`alpha` has no effect beside `margin`", hint=hint)


Definition = Threshold | Exists | ShareLimit | NotWorse
RULES: Mapping[str, type] = {one.type: one for one in (Threshold, Exists, ShareLimit, NotWorse)}


def _require_finite(number: float) -> None:
    if number - number != 0:
        raise SpecError("E108", f"`threshold` is {number!r}, not a finite number")


@dataclass(frozen=True)
class Scope:
    """Which tasks a rule is about: keys of evaluations, and of their task specifications; None is all."""

    evaluation_keys: tuple[str, ...] | None = None
    task_specification_keys: tuple[str, ...] | None = None

    def covers(self, evaluation: str) -> bool:
        """Return whether a run of this evaluation is meant."""
        return self.evaluation_keys is None or evaluation in self.evaluation_keys

    def pick(self, keys: Sequence[str]) -> list[str]:
        """Return those of the keys of task specifications that are meant."""
        wanted = self.task_specification_keys
        return [key for key in keys if wanted is None or key in wanted]


@dataclass(frozen=True)
class Rule:
    """One rule of a policy; `place` is where its definition stands."""

    key: str
    definition: Definition
    display_name: str
    description: str | None = None
    scope: Scope = field(default_factory=Scope)
    place: Place = field(default_factory=Place, compare=False)

    def describe(self) -> dict[str, Any]:
        """Return the rule as plain values, in the form of the files."""
        scope = {name: list(keys) for name, keys in asdict(self.scope).items() if keys is not None}
        described: dict[str, Any] = {"key": self.key, "display_name": self.display_name}
        described |= {"description": self.description} if self.description else {}
        return described | {"definition": describe_definition(self.definition), "scope": scope or EVERYWHERE}


@dataclass(frozen=True)
class Policy:
    """Rules that belong together."""

    key: str
    rules: tuple[Rule, ...]
    display_name: str
    description: str | None = None

    def describe(self) -> dict[str, Any]:
        """Return the policy as plain values, in the form of the files."""
        described: dict[str, Any] = {"key": self.key, "display_name": self.display_name}
        described |= {"description": self.description} if self.description else {}
        return described | {"rules": [rule.describe() for rule in self.rules]}


def describe_definition(definition: Definition) -> dict[str, Any]:
    """Return what a rule needs as plain values; what is left open is left out."""
    stated = {name: value for name, value in asdict(definition).items() if value is not None}
    return {"type": definition.type, **stated}


def list_rules(policies: Sequence[Policy]) -> Iterator[tuple[Policy, Rule]]:
    """Yield every rule with its policy, in order."""
    yield from ((policy, rule) for policy in policies for rule in policy.rules)


def name_baseline(policies: Sequence[Policy], baseline: str | None) -> tuple[Policy, ...]:
    """Return the policies with the caller's baseline in every rule that needs one.

    Where no rule does, the baseline comes with a rule of its own.
    """
    if baseline is None:
        return tuple(policies)
    if any(isinstance(rule.definition, NotWorse) for _, rule in list_rules(policies)):
        return tuple(
            replace(policy, rules=tuple(_set_baseline(rule, baseline) for rule in policy.rules))
            for policy in policies
        )
    own = Rule("not_worse", NotWorse(baseline), "Not worse than the baseline")
    keys = {policy.key for policy in policies}
    names = (BASELINE_KEY, *(f"{BASELINE_KEY}-{number}" for number in range(2, len(keys) + 3)))
    key = next(name for name in names if name not in keys)
    return (*policies, Policy(key, (own,), "Baseline"))


def _set_baseline(rule: Rule, baseline: str) -> Rule:
    if not isinstance(rule.definition, NotWorse):
        return rule
    return replace(rule, definition=replace(rule.definition, baseline=baseline))
