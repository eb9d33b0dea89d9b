"""`trials`: how often each sample is asked, and how the scores of its trials are put together."""

from __future__ import annotations

from collections.abc import Sequence

from answerkey.errors import Place, listing, suggest
from answerkey.metrics import UNBIASED, WITH_K, Aggregator, ScoreAggregator, Trials
from answerkey.spec.findings import Findings
from answerkey.spec.nodes import MapNode, Node, find_node, is_null
from answerkey.spec.shapes import AggregatorFields, ScoreAggregatorFields, TrialsFields
from answerkey.spec.tasks import ScoringStep
from answerkey.spec.validation import validate_node

_SAYS = (
    "`pass@k` and `pass^k` are the unbiased estimators here: 1 - C(n-c, k)/C(n, k) and C(c, k)/C(n, k) of c"
    " successes in n trials"
)
_PLUGIN = "for the plug-in forms 1 - (1-p)^k and p^k write `pass@k_plugin` and `pass^k_plugin`"


def override_trials(task: MapNode, *layers: Node | None) -> MapNode:
    """Return a task with what the run says about its trials; a later layer wins, key by key."""
    definition = task.get("definition")
    if not isinstance(definition, MapNode):
        return task
    found = definition.get("trials")
    for layer in layers:
        if layer is None or is_null(layer):
            continue
        if isinstance(found, MapNode) and isinstance(layer, MapNode):
            found = MapNode(found.entries | layer.entries, layer.place, found.keys | layer.keys)
        else:
            found = layer
    return task if found is None else task.having("definition", definition.having("trials", found))


def build_trials(node: Node | None, findings: Findings) -> Trials | None:
    """Return the trials of a definition; None when there are none, or `num_trials` is wrong."""
    if node is None or is_null(node):
        return None
    fields = validate_node(TrialsFields, node, findings, name="`trials`")
    if fields is None:
        return None
    chosen: dict[tuple[str, str], ScoreAggregator] = {}
    for index, one in enumerate(fields.score_aggregators or ()):
        where = find_node(node, ("score_aggregators", index))[0].place
        score = _choose_score(one, where, findings)
        if not _check_k(one.aggregator, fields.num_trials, where, findings) or score is None:
            continue
        aggregator = Aggregator(one.aggregator.function, one.aggregator.k)
        name = (score, aggregator.label)
        if name in chosen:
            findings.add("E108", f"the aggregate `{'.'.join(name)}` is asked for twice", where)
        chosen.setdefault(name, ScoreAggregator(score, aggregator))
        if aggregator.function in UNBIASED:
            findings.notice(_SAYS, where, _PLUGIN)
    return Trials(fields.num_trials, tuple(chosen.values()))


def _choose_score(one: ScoreAggregatorFields, where: Place, findings: Findings) -> str | None:
    """Return the score that is aggregated; report one that is not named, or named in two ways."""
    named = {one.score_name, one.aggregator.score_name} - {None}
    if len(named) == 1:
        return named.pop()
    what = "`score_name` is missing" if not named else "`score_name` and that of the `aggregator` differ"
    findings.add("E108", f"{what} in `score_aggregators` of `trials`", where)
    return None


def _check_k(one: AggregatorFields, num_trials: int, where: Place, findings: Findings) -> bool:
    """Return whether `k` is as the function needs it; report it when not."""
    trouble = _find_trouble(one.function, one.k, num_trials)
    if trouble is not None:
        findings.add("E108", trouble[0], where, trouble[1])
    return trouble is None


def _find_trouble(name: str, k: int | None, num_trials: int) -> tuple[str, str] | None:
    """Return what is wrong with `k` and what to do about it."""
    if name not in WITH_K:
        return None if k is None else (f"the aggregator `{name}` has no `k`", "leave `k` out")
    if k is None:
        return f"the aggregator `{name}` needs `k`", f"write `{{function: {name}, k: 1}}`"
    if name in UNBIASED and k > num_trials:
        message = f"`{name}` with `k` {k} needs {k} trials, and there are {num_trials}"
        return message, f"give at least {k} trials, or a smaller `k`"
    return None


def check_score_names(
    trials: Trials | None, steps: Sequence[ScoringStep], node: Node, findings: Findings
) -> None:
    """Report aggregators of something that no scorer has as a value."""
    known = [step.scorer.value_names for step in steps]
    if trials is None or not steps or None in known:
        return
    names = list(dict.fromkeys(name for one in known for name in one or ()))
    metadata = {name for step in steps for name in step.scorer.metadata_names or ()}
    for one in trials.score_aggregators:
        if one.score_name in names:
            continue
        hint = suggest(one.score_name, names) or f"values: {listing(names)}"
        if one.score_name in metadata:
            hint = f"metadata has no aggregate: its metrics count the trials; {hint}"
        message = f"`score_name` `{one.score_name}` is not a value of a scorer of the task"
        findings.add("E115", message, _find_name(node, one.score_name), hint)


def _find_name(node: Node, name: str) -> Place:
    listed = node.get("score_aggregators") if isinstance(node, MapNode) else None
    for entry in getattr(listed, "entries", ()):
        found = entry.get("score_name") if isinstance(entry, MapNode) else None
        found = find_node(entry, ("aggregator", "score_name"))[0] if found is None else found
        if found is not None and str(getattr(found, "value", "")) == name:
            place: Place = found.place
            return place
    return node.place
