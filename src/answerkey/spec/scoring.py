"""The scorers of a task file and their metrics become scoring steps."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, cast

from answerkey.errors import AnswerkeyError, Place, SpecError, listing, suggest
from answerkey.metrics import METRICS, Design, KeyedMetric, Metric, Trials, find_scale
from answerkey.sandbox import Snippet, check_snippet
from answerkey.scorers import SCORERS, Scorer, compile_templates
from answerkey.spec.deprecations import carry_over
from answerkey.spec.designs import build_design
from answerkey.spec.fields import Fields, build, extend_fields, fields_of
from answerkey.spec.findings import Findings
from answerkey.spec.keys import assign_keys
from answerkey.spec.nodes import ListNode, MapNode, Node, ScalarNode, find_node, is_null
from answerkey.spec.refusals import choose_type
from answerkey.spec.shapes import MetricCommon, ScorerCommon
from answerkey.spec.tasks import ScoringStep
from answerkey.spec.validation import validate_node
from answerkey.templates import UnresolvedConfig

_SNIPPET = "_snippet"


@dataclass(frozen=True)
class BuiltStep:
    """A scoring step, its snippets, and its fields as plain values."""

    step: ScoringStep
    snippets: tuple[Snippet, ...]
    source: dict[str, object]


@cache
def scorer_model(kind: str) -> type[Fields]:
    """Return the model of a scorer's YAML: its own fields and the common ones."""
    scorer: type = SCORERS[kind]
    own = fields_of(scorer)
    return extend_fields(own, f"{own.__name__}Scorer", ScorerCommon, type=(Literal[kind], ...))


@cache
def metric_model(kind: str) -> type[Fields]:
    """Return the model of a metric's YAML: its own fields and its key."""
    own = fields_of(METRICS[kind])
    return extend_fields(own, f"{own.__name__}Metric", MetricCommon, type=(Literal[kind], ...))


def build_scoring(
    node: Node | None, findings: Findings, trials: Trials | None = None, design: Design | None = None
) -> list[BuiltStep]:
    """Return the steps of a list of scorers; one with mistakes is left out, the others are built.

    `design` is that of the task, for metrics that have none of their own.
    """
    entries = enumerate(node.entries if isinstance(node, ListNode) else ())
    drafts = [
        replace(draft, trials=trials, design=design or Design())
        for index, entry in entries
        if (draft := _draft_scorer(entry, index, findings))
    ]
    wanted = [(draft.fields.key, draft.kind, draft.node.place) for draft in drafts]
    keys = assign_keys(wanted, findings, what="scorer", within="in the task")
    return [
        built for draft, key in zip(drafts, keys, strict=True) if (built := _finish(draft, key, findings))
    ]


@dataclass(frozen=True)
class _Draft:
    kind: str
    index: int
    node: MapNode
    fields: Any
    scorer: Scorer | None
    design: Design
    trials: Trials | None = None


def _draft_scorer(entry: Node, index: int, findings: Findings) -> _Draft | None:
    found = choose_type(entry, "scorer", SCORERS, findings)
    if found is None or not isinstance(entry, MapNode):
        return None
    kind = str(cast("ScalarNode", entry.entries["type"]).value)
    node = cast("MapNode", carry_over(entry, "scorer", findings, scorer=kind))
    fields = validate_node(scorer_model(kind), node, findings, name=f"scorer {index + 1} (`{kind}`)")
    if fields is None:
        _check_metrics_alone(node, findings)
        return None
    scorer = try_build(fields, node, findings)
    return _Draft(kind, index, node, fields, cast("Scorer | None", scorer), Design())


def try_build(fields: Fields, node: MapNode, findings: Findings) -> object | None:
    """Return the dataclass of a part; what its own checks refuse is reported at the field they name."""
    try:
        return cast("object", build(fields))
    except AnswerkeyError as error:
        findings.report(_place_error(error, node))
    except (TypeError, ValueError) as error:
        findings.add("E108", str(error), node.place)
    return None


def _place_error(error: AnswerkeyError, node: MapNode) -> AnswerkeyError:
    """Return an error that was raised without a place with the place of the field it names."""
    field = error.where.field if error.where else None
    named = next((name for name in node.entries if f"`{name}`" in error.message), None)
    path = tuple((field or named or "").split("."))
    return type(error)(error.code, error.message, where=find_node(node, path)[0].place, hint=error.hint)


def _check_metrics_alone(node: MapNode, findings: Findings) -> None:
    """Report mistakes in the metrics of a scorer that cannot be built itself."""
    metrics = node.get("metrics")
    for index, entry in enumerate(metrics.entries if isinstance(metrics, ListNode) else ()):
        _build_metric(entry, index, findings)


def _finish(draft: _Draft, key: str, findings: Findings) -> BuiltStep | None:
    snippets = _find_snippets(draft.fields, draft.node, key, findings)
    metrics, metric_sources, metric_snippets = _build_metrics(draft, key, findings)
    if draft.scorer is None:
        return None
    _check_templates(draft.scorer, draft.node, findings)
    fields = draft.fields
    step = ScoringStep(key, draft.scorer, metrics, fields.purpose, fields.display_name, draft.index)
    source = {**_plain(fields), "key": key, "metrics": metric_sources}
    return BuiltStep(step, (*snippets, *metric_snippets), source)


def _plain(fields: Fields) -> dict[str, object]:
    plain = fields.model_dump(mode="json", fallback=str)
    return {name: value for name, value in plain.items() if value is not None}


def _check_templates(scorer: Scorer, node: MapNode, findings: Findings) -> None:
    _, errors = compile_templates(scorer)
    for name, error in errors:
        written = node.get(name)
        if written is not None and not is_null(written) and getattr(scorer, name, None) is None:
            continue  # it is written, and what is wrong with it was reported
        report_template(error, find_node(node, tuple(name.split(".")))[0], findings)


def report_template(error: SpecError, node: Node, findings: Findings) -> None:
    """Report a template that does not compile at its place; an unknown config name was reported already."""
    if isinstance(error, UnresolvedConfig):
        return
    line = error.where.line if error.where else None
    where = node.place_of_line(line) if isinstance(node, ScalarNode) else node.place
    findings.add(error.code, error.message, where, error.hint)


def _find_snippets(fields: Fields, node: MapNode, label: str, findings: Findings) -> list[Snippet]:
    found = []
    for name in type(fields).model_fields:
        source = getattr(fields, name)
        if name.endswith(_SNIPPET) and isinstance(source, str):
            written = find_node(node, (name,))[0]
            snippet = Snippet(name.removesuffix(_SNIPPET), source, written.place, label)
            error = check_snippet(snippet)
            if error is not None:
                findings.add(error.code, error.message, _place_mistake(source, written), error.hint)
            found.append(snippet)
    return found


def _place_mistake(source: str, node: Node) -> Place:
    """Return where a snippet stops being Python; where it begins when it is Python that does not fit."""
    try:
        ast.parse(source)
    except SyntaxError as error:
        return node.place_of_line(error.lineno, error.offset) if isinstance(node, ScalarNode) else node.place
    except (ValueError, RecursionError, MemoryError):
        pass
    return node.place


def _build_metrics(
    draft: _Draft, scorer_key: str, findings: Findings
) -> tuple[tuple[KeyedMetric, ...], list[dict[str, object]], list[Snippet]]:
    listed = draft.node.get("metrics")
    if draft.fields.metrics is None or not isinstance(listed, ListNode):
        return _default_metrics(draft, findings)
    if not listed.entries and not _default_means(draft.scorer, draft.trials):
        _require_metrics(draft, findings)
    elif not listed.entries and draft.fields.purpose == "score":
        message = f"scorer `{scorer_key}` has no metrics: the run will have no number of it"
        findings.notice(message, listed.place, "leave `metrics` out to get the usual ones")
    found = [
        (entry, one) for i, entry in enumerate(listed.entries) if (one := _build_metric(entry, i, findings))
    ]
    wanted = [(one[0].key, one[1].type, entry.place) for entry, one in found]
    keys = assign_keys(wanted, findings, what="metric", within=f"in scorer `{scorer_key}`")
    sources, snippets = [], []
    for (entry, (fields, metric)), key in zip(found, keys, strict=True):
        _check_metric_fields(metric, draft, entry, findings)
        sources.append({**_plain(fields), "key": key})
        snippets.extend(_find_snippets(fields, cast("MapNode", entry), f"{scorer_key}.{key}", findings))
    keyed = [
        KeyedMetric(key, metric, build_design(fields, draft.design), _find_scale(metric, draft))
        for (_, (fields, metric)), key in zip(found, keys, strict=True)
    ]
    return tuple(keyed), sources, snippets


def _build_metric(entry: Node, index: int, findings: Findings) -> tuple[Any, Metric] | None:
    found = choose_type(entry, "metric", METRICS, findings)
    if found is None or not isinstance(entry, MapNode):
        return None
    kind = str(cast("ScalarNode", entry.entries["type"]).value)
    fields = validate_node(metric_model(kind), entry, findings, name=f"metric {index + 1} (`{kind}`)")
    metric = try_build(fields, entry, findings) if fields is not None else None
    return None if metric is None else (fields, cast("Metric", metric))


def _default_means(scorer: Scorer | None, trials: Trials | None) -> list[Mapping[str, object]]:
    """Return the mean of the main value, or of each of its aggregates, which then say what they are."""
    if scorer is None or scorer.main_value is None:
        return []
    own: Sequence[Mapping[str, object]] | None = getattr(scorer, "default_metrics", None)
    if own is not None:
        return list(own)
    value, name = scorer.main_value, scorer.default_metric_name
    if trials is None:
        return [{"type": "mean", "field": value, "name": name}]
    labels = [one.label for one in trials.aggregators_of(value)]
    return [
        {"type": "mean", "field": f"{value}.{one}", "name": name if one == "mean" else f"{name} {one}"}
        for one in labels
    ]


def _default_metrics(
    draft: _Draft, findings: Findings
) -> tuple[tuple[KeyedMetric, ...], list[dict[str, object]], list[Snippet]]:
    """Return the metrics of a scorer without `metrics`: its own, else the mean of its main value."""
    defaults = _default_means(draft.scorer, draft.trials)
    if not defaults:
        _require_metrics(draft, findings)
    kinds = [str(one["type"]) for one in defaults]
    keys = assign_keys([(None, kind, draft.node.place) for kind in kinds], findings, what="metric", within="")
    models = [metric_model(kind).model_validate(one) for kind, one in zip(kinds, defaults, strict=True)]
    found = list(zip(models, keys, strict=True))
    built = [(key, build(fields)) for fields, key in found]
    keyed = [KeyedMetric(key, metric, draft.design, _find_scale(metric, draft)) for key, metric in built]
    return tuple(keyed), [{**_plain(fields), "key": key} for fields, key in found], []


def _find_scale(metric: Metric, draft: _Draft) -> tuple[float, float] | None:
    return find_scale(metric, getattr(draft.scorer, "scales", {}))


def _require_metrics(draft: _Draft, findings: Findings) -> None:
    if SCORERS[draft.kind].main_value is None:
        hint = "add `metrics`, such as `- {type: mean, field: …}`"
        findings.add("E108", f"a `{draft.kind}` scorer needs `metrics`", draft.node.place, hint)


def _check_metric_fields(metric: Metric, draft: _Draft, entry: Node, findings: Findings) -> None:
    scorer = SCORERS[draft.kind]
    if scorer.value_names is None or scorer.metadata_names is None:
        return
    values = list(scorer.value_names)
    if draft.trials is not None:
        values = [one for name in values for one in draft.trials.names_of(name)]
    known = [*values, *scorer.metadata_names]
    for field in metric.fields():
        if field in getattr(scorer, "text_names", ()) and getattr(metric, "reads_numbers", False):
            message = f"`{metric.type}` needs numbers, and `{field}` is text"
            hint = "`frequency` and the classification metrics read text"
            findings.add("E115", message, _field_place(entry, field), hint)
        if field in known or "<<" in field:
            continue
        near = suggest(field, known)
        hint = f"{near} fields: {listing(known)}" if near else f"fields: {listing(known)}"
        message = f"metric field `{field}` is not produced by `{draft.kind}`"
        findings.add("E115", message, _field_place(entry, field), hint)


def _field_place(entry: Node, field: str) -> Place:
    if isinstance(entry, MapNode):
        for node in entry.entries.values():
            if isinstance(node, ScalarNode) and node.value == field:
                return node.place
    return replace(entry.place)
