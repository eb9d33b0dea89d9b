"""The `choice_order` of a task: its checks, and the metrics that it adds."""

from __future__ import annotations

from dataclasses import replace

from answerkey import features
from answerkey.metrics import Design, KeyedMetric, Metric
from answerkey.metrics.base import number_name
from answerkey.solvers import Solver
from answerkey.solvers.choice_order import ChoiceOrder
from answerkey.spec.job import Scoring, ScoringStep
from answerkey.spec.nodes import Node
from answerkey.spec.validation import fields_of, try_build, validate_node


def build_choice_order(node: Node) -> tuple[ChoiceOrder | None, object]:
    """Return the choice order of a task, and its fields as plain values."""
    fields = validate_node(fields_of(ChoiceOrder), node, "`choice_order`")
    order = try_build(fields, node)
    if fields is None or order is None:
        return None, None
    return order, fields.model_dump(mode="json")


def check_choice_order(
    order: ChoiceOrder,
    solver: Solver | None,
    steps: Scoring,
    definition: Node,
) -> None:
    """Report scorers and solvers that read the options in the order of the row."""
    for step in steps:
        if not _has(step, "follows_order"):
            message = f"scorer `{step.key}` (`{step.scorer.type}`) reads the truth unchanged "
            message += "in the row, and `choice_order` moves the options"
            hint = "with `choice_order` use `string_equals_mcqa`, whose truth moves with its option"
            definition.at("scorers", step.index).report("E108", message, hint)
    if solver is not None and solver.reads_column and order.orders != "original":
        message = f"`{solver.type}` reads replies to the options in their original order, "
        message += f"and `orders` is `{order.orders}`"
        hint = "write `orders: original`, "
        hint += "or bring a file with `option_order` by `--completions FILE`"
        definition.at("choice_order", "orders").report("E108", message, hint)


def _has(step: ScoringStep, name: str) -> bool:
    return bool(getattr(step.scorer, name, False))


def add_order_metrics(
    order: ChoiceOrder,
    steps: Scoring,
    definition: Node,
) -> list[ScoringStep]:
    """Return the steps with the metrics that `choice_order` adds."""
    robustness = features.load_choice_order()
    ordered = list(steps)
    for index, step in enumerate(steps):
        if step.purpose == "score":
            if _has(step, "follows_order"):
                metric = robustness.ChoiceOrderMetric(order.orders)
                ordered[index] = _add_metric(step, "choice_order", metric)
            break
    if order.pride is None:
        return ordered
    for index, step in enumerate(ordered):
        if _has(step, "reads_logprobs"):
            metric = robustness.PrideMetric(order.pride.share, order.pride.seed)
            ordered[index] = _add_metric(step, "pride", metric)
            return ordered
    message = "`pride` takes the prior out of probabilities, and no scorer of the task reads any"
    hint = "add the scorer `choice_probabilities`, or leave `pride` out"
    definition.at("choice_order", "pride").report("E108", message, hint)
    return ordered


def _add_metric(step: ScoringStep, name: str, metric: Metric) -> ScoringStep:
    design = Design()
    if step.metrics:
        design = step.metrics[0].design._replace(group_by=())
    taken = {keyed.key for keyed in step.metrics}
    keyed = KeyedMetric(number_name(name, taken), metric, design)
    return replace(step, metrics=(*step.metrics, keyed))
