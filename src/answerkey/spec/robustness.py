"""`choice_order`: the options of each sample in other orders; and which scorers go with which solvers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, count
from typing import cast

from answerkey.metrics import ChoiceOrderMetric, Design, KeyedMetric, Metric, PrideMetric
from answerkey.solvers import ChoiceOrder, ChoiceRankingSolver, PassThroughSolver, Pride, Solver
from answerkey.spec.fields import Fields, fields_of
from answerkey.spec.findings import Findings
from answerkey.spec.nodes import MapNode, Node, find_node, is_null
from answerkey.spec.scoring import BuiltStep, try_build
from answerkey.spec.tasks import ScoringStep
from answerkey.spec.validation import validate_node

Ordered = tuple[ChoiceOrder, Fields]


def build_choice_order(node: Node | None, findings: Findings) -> Ordered | None:
    """Return the `choice_order` of a definition and its fields; None when there is none or it is wrong."""
    if node is None or is_null(node):
        return None
    fields = validate_node(fields_of(ChoiceOrder), node, findings, name="`choice_order`")
    if fields is None or not isinstance(node, MapNode):
        return None
    setting = cast("ChoiceOrder | None", try_build(fields, node, findings))
    return None if setting is None else (setting, fields)


def order_steps(
    definition: MapNode,
    setting: ChoiceOrder | None,
    steps: Sequence[BuiltStep],
    solver: Solver | None,
    findings: Findings,
) -> list[BuiltStep]:
    """Return the steps with what the order does to the main one; report what does not follow the order."""
    if setting is None:
        return list(steps)
    for built in steps:
        if not getattr(built.step.scorer, "follows_order", False):
            _refuse_scorer(definition, built.step, findings)
    if isinstance(solver, PassThroughSolver) and setting.orders != "original":
        findings.add(
            "E108",
            f"`{solver.type}` reads what was said to the options as they stand, and `orders` is"
            f" `{setting.orders}`",
            find_node(definition, ("choice_order", "orders"))[0].place,
            "write `orders: original`, or bring a file with `option_order` by `--completions FILE`",
        )
    main = next((one for one in steps if one.step.purpose == "score"), None)
    found = [_add_metric(one, setting) if one is main else one for one in steps]
    return found if setting.pride is None else _add_pride(definition, setting.pride, found, findings)


def _add_pride(
    definition: MapNode, pride: Pride, steps: Sequence[BuiltStep], findings: Findings
) -> list[BuiltStep]:
    """Return the steps with the prior taken out of the first that reads probabilities; report when none."""
    first = next((one for one in steps if getattr(one.step.scorer, "reads_logprobs", False)), None)
    if first is None:
        findings.add(
            "E108",
            "`pride` takes the prior out of probabilities, and no scorer of the task reads any",
            find_node(definition, ("choice_order", "pride"))[0].place,
            "add the scorer `choice_probabilities`, or leave `pride` out",
        )
    metric = PrideMetric(pride.share, pride.seed)
    return [_add(one, "pride", metric) if one is first else one for one in steps]


def check_ranking(
    definition: MapNode, steps: Sequence[BuiltStep], solver: Solver | None, findings: Findings
) -> None:
    """Report scorers that read the text of a solver that asks for none."""
    for built in steps if isinstance(solver, ChoiceRankingSolver) else ():
        if not getattr(built.step.scorer, "reads_logprobs", False):
            findings.add(
                "E108",
                f"`{ChoiceRankingSolver.type}` gets log-probabilities and no text, which scorer"
                f" `{built.step.key}` (`{built.step.scorer.type}`) reads",
                find_node(definition, ("scorers", built.step.index))[0].place,
                "use the scorer `choice_probabilities`",
            )


def _refuse_scorer(definition: MapNode, step: ScoringStep, findings: Findings) -> None:
    findings.add(
        "E108",
        f"scorer `{step.key}` (`{step.scorer.type}`) reads the truth as it stands in the row, and"
        " `choice_order` moves the options",
        find_node(definition, ("scorers", step.index))[0].place,
        "with `choice_order` use `string_equals_mcqa`, whose truth moves with its option",
    )


def _add_metric(built: BuiltStep, setting: ChoiceOrder) -> BuiltStep:
    """Return a step that also measures what the order does."""
    if not getattr(built.step.scorer, "follows_order", False):
        return built
    return _add(built, "choice_order", ChoiceOrderMetric(setting.orders))


def _add(built: BuiltStep, name: str, metric: Metric) -> BuiltStep:
    """Return a step with one more metric, under its own name or the next that is free."""
    step = built.step
    taken = {one.key for one in step.metrics}
    key = next(one for one in chain([name], (f"{name}-{number}" for number in count(2))) if one not in taken)
    design = step.metrics[0].design if step.metrics else Design()
    added = KeyedMetric(key, metric, replace(design, group_by=()))
    return replace(built, step=replace(step, metrics=(*step.metrics, added)))
