"""The `trials` of a task: how often each sample is asked, and how its trials are aggregated."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated

from pydantic import Field

from answerkey import metrics
from answerkey.metrics import AggregatorName, Trials
from answerkey.spec.job import Scoring
from answerkey.spec.nodes import Node, advise, walk_scalars
from answerkey.spec.shapes import Count
from answerkey.spec.validation import Fields, Text, Whole, validate_node

_UNBIASED_NOTICE = (
    "`pass@k` and `pass^k` are the unbiased estimators here: "
    "1 - C(n-c, k)/C(n, k) and C(c, k)/C(n, k) of c successes in n trials"
)
_PLUGIN_HINT = "for the plug-in forms 1 - (1-p)^k and p^k write `pass@k_plugin` and `pass^k_plugin`"


class AggregatorFields(Fields):
    """How the trials' values of one score become one number."""

    function: AggregatorName
    k: Count | None = None
    score_name: Text | None = None


class ScoreAggregatorFields(Fields):
    """Which score is aggregated, and how; the aggregator may name the score too."""

    score_name: Text | None = None
    aggregator: AggregatorFields


class TrialsConfigFields(Fields):
    """How many completions each sample gets."""

    num_trials: Annotated[Whole, Field(ge=2)]


class TrialsFields(TrialsConfigFields):
    """How often each sample is asked, and how its trials are aggregated."""

    score_aggregators: list[ScoreAggregatorFields] | None = None


def override_trials(task: Node, *layers: Node) -> Node:
    """Return a task with what the run says about its trials; a later layer wins, key by key."""
    definition = task.field("definition")
    trials = definition.field("trials")
    if not definition.is_map:
        return task
    for layer in layers:
        if trials.is_map and layer.is_map:
            keys = trials.keys | layer.keys
            entries = trials.entries | layer.entries
            trials = replace(layer, value=entries, keys=keys)
        elif not layer.is_null:
            trials = layer
    definition = definition.with_entry("trials", trials)
    return task.with_entry("definition", definition)


def build_trials(node: Node) -> tuple[Trials | None, object]:
    """Return the trials of a definition, None when `num_trials` is wrong; and as plain values."""
    fields = validate_node(TrialsFields, node, "`trials`")
    if fields is None:
        return None, None
    chosen: dict[str, metrics.ScoreAggregator] = {}
    for index, entry in enumerate(fields.score_aggregators or ()):
        where = node.at("score_aggregators", index)
        names = {entry.score_name, entry.aggregator.score_name} - {None}
        mistake = _check_aggregator(entry.aggregator, fields.num_trials)
        if len(names) != 1:
            mistake = "`score_name` must be given once, here or in the `aggregator`"
        if mistake:
            where.report("E108", mistake)
            continue
        aggregator = metrics.Aggregator(entry.aggregator.function, entry.aggregator.k)
        name = str(names.pop())
        label = f"{name}.{aggregator.label}"
        if label in chosen:
            where.report("E108", f"the aggregate `{label}` is listed twice")
        chosen.setdefault(label, metrics.ScoreAggregator(name, aggregator))
        if aggregator.function in metrics.UNBIASED:
            node.problems.notice(_UNBIASED_NOTICE, where.place, _PLUGIN_HINT)
    trials = Trials(fields.num_trials, tuple(chosen.values()))
    return trials, asdict(trials)


def _check_aggregator(fields: AggregatorFields, num_trials: int) -> str | None:
    """Return a message about a wrong `k` of an aggregator, if it is wrong."""
    name = fields.function
    k = fields.k
    if name in metrics.WITH_K and k is None:
        return f"the aggregator `{name}` needs `k`"
    if name not in metrics.WITH_K and k is not None:
        return f"the aggregator `{name}` has no `k`"
    if k is not None and name in metrics.UNBIASED and k > num_trials:
        return f"`{name}` with `k` {k} needs {k} trials, and there are {num_trials}"
    return None


def check_aggregated_names(
    trials: Trials,
    steps: Scoring,
    node: Node,
) -> None:
    """Report aggregators of names that are not values of a scorer."""
    names: set[str] = set()
    for step in steps:
        if step.scorer.value_types is None:
            return
        names.update(step.scorer.value_types)
    for aggregate in trials.score_aggregators if steps else ():
        name = aggregate.score_name
        if name in names:
            continue
        message = f"`score_name` `{name}` is not a value of a scorer of the task"
        place = node
        for _, scalar in walk_scalars(node.at("score_aggregators")):
            if scalar.value == name:
                place = scalar
        place.report("E115", message, advise(name, names, "values"))
