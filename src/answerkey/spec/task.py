"""Build a Task from its tree, with nothing left to look up; every mistake is reported."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from answerkey import metrics
from answerkey.errors import Place, SpecError, listing, suggest
from answerkey.metrics import (
    METRICS,
    Design,
    KeyedMetric,
    Metric,
    Trials,
)
from answerkey.sandbox import Snippet, check_snippet
from answerkey.scorers import (
    SCORERS,
    Action,
)
from answerkey.solvers import SOLVERS, Solver
from answerkey.spec import shapes
from answerkey.spec.config import Config
from answerkey.spec.job import Scoring, ScoringStep, Task
from answerkey.spec.nodes import Json, Node, from_plain
from answerkey.spec.validation import (
    Fields,
    Part,
    assign_keys,
    replace_old_names,
    report_text,
    validate_node,
)
from answerkey.templates import find_whole

if TYPE_CHECKING:
    from answerkey.solvers.choice_order import ChoiceOrder

SCORER = Part("scorer", SCORERS, shapes.ScorerCommon, "Scorer")
METRIC = Part("metric", METRICS, shapes.MetricCommon, "Metric")
SOLVER = Part("solver", SOLVERS)
#: Fields for people, which do not affect any number.
_WORDS_ONLY = frozenset({"display_name", "description", "long_description"})


def build_task(node: Node, config: Config) -> Task | None:
    """Return the task with config values filled in; None when it cannot be built at all."""
    if not node.is_map:
        node.report("E108", "a task must be a mapping", "it begins with `key: …`")
        return None
    task = replace_old_names(node.without("config_spec"), "task")
    definition = task.field("definition")
    choice = definition.field("dataset")
    if choice.text and find_whole(choice.text):
        # `dataset: << config.x >>` is short for `dataset: {key: << config.x >>}`.
        mapping = choice.changed({}).with_entry("key", choice)
        definition = definition.with_entry("dataset", mapping)
        task = task.with_entry("definition", definition)
    if not config.is_read:
        return _build(task, config, {})
    columns = config.of_type("dataset_column")
    return _build(config.fill(task), config, columns)


def task_from_source(source: Mapping[str, Any]) -> Task:
    """Return the task that `Task.source` describes; raises SpecError when it is none."""
    place = Place(file=source.get("file"))
    plain = dict(source)
    config = plain.pop("config", None) or {}
    columns = plain.pop("dataset_columns", None) or {}
    plain.pop("file", None)
    node = from_plain(plain, place)
    task = _build(node, Config(values=config), columns)
    if node.problems.errors:
        raise node.problems.errors[0]
    if task is None:
        raise SpecError("E108", "the stored task cannot be read", where=place)
    return task


def _build(
    node: Node,
    config: Config,
    columns: Mapping[str, str],
) -> Task | None:
    fields = validate_node(shapes.TaskFields, node, "the task")
    if "definition" not in node.entries:
        return None
    definition = replace_old_names(node.entries["definition"], "definition")
    choice = replace_old_names(definition.field("dataset"), "dataset choice")
    if not choice.is_null:
        definition = definition.with_entry("dataset", choice)
    parts = validate_node(shapes.Definition, definition, "`definition`")
    design = Design()
    if parts is not None:
        design = build_design(parts, design)
    built: Json = {}
    plain: Json = {}
    for name, build_part in _BUILDERS.items():
        if not definition.field(name).is_null:
            built[name], plain[name] = build_part(definition.entries[name])
    trials = built.get("trials")
    steps = _build_scoring(definition.field("scorers"), trials, design)
    if built:
        steps = _check_parts(definition, steps, **built)
    actions: list[Action] = []
    if "actions" in definition.entries:
        from answerkey.spec.actions import build_actions, describe_action

        actions = build_actions(definition.entries["actions"], steps)
        plain["actions"] = list(map(describe_action, actions)) or None
    if fields is None or parts is None or not steps:
        return None
    source = {
        **_dump(fields, exclude={"config_spec", "definition"}),
        "definition": _describe_definition(parts, steps, plain),
        "config": dict(config.values),
        "dataset_columns": dict(columns),
        "file": node.place.file,
    }
    text = json.dumps(source, ensure_ascii=False, default=str)
    source = json.loads(text)
    dataset = source["definition"].get("dataset", {})
    snippets = [step.snippets for step in steps]
    return Task(
        key=fields.key,
        display_name=fields.display_name or fields.key,
        description=fields.description or "",
        long_description=fields.long_description,
        tags=fields.tags,
        config=config.values,
        dataset_columns=columns,
        dataset_key=dataset.get("key"),
        scoring=tuple(steps),
        actions=tuple(actions),
        snippets=tuple(chain.from_iterable(snippets)),
        fingerprint=_hash_task(source["definition"], steps),
        source=source,
        file=node.place.file,
        places=node,
        config_places=config.places,
        **built,
    )


def _describe_definition(
    parts: shapes.Definition,
    steps: Scoring,
    plain: Json,
) -> Json:
    """Return a definition as plain values, with every key given and every old name gone."""
    resolved = {
        "type": "benchmark_task",
        "dataset": parts.dataset and {"key": parts.dataset.key},
        "solver": plain.get("solver"),
        "scorers": [step.source for step in steps],
        "trials": plain.get("trials"),
        "choice_order": plain.get("choice_order"),
        "group_by": parts.group_by,
        "cluster_by": parts.cluster_by,
        "actions": plain.get("actions"),
    }
    return {name: value for name, value in resolved.items() if value is not None}


def _dump(fields: Fields, *, exclude: set[str] | None = None) -> Json:
    return fields.model_dump(
        mode="json",
        exclude=exclude,
        exclude_none=True,
        fallback=str,
    )


def _hash_task(definition: object, steps: Scoring) -> str:
    """Return the SHA-256 of a resolved definition, without names and descriptions for readers.

    Our own prompts decide numbers like those of the user.
    """
    hashed = definition
    prompts = []
    for step in steps:
        prompt = getattr(step.scorer, "model_prompt", None)
        if prompt and step.model_key is not None:
            prompts.append(prompt)
    if prompts:
        hashed = [definition, *prompts]

    text = json.dumps(
        _strip_words(hashed),
        sort_keys=True,
        ensure_ascii=False,
        separators=(",", ":"),
    )
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _strip_words(value: object) -> object:
    if isinstance(value, list):
        return list(map(_strip_words, value))
    if not isinstance(value, dict):
        return value
    kept = {}
    for key, entry in value.items():
        if key not in _WORDS_ONLY and entry is not None:
            kept[key] = _strip_words(entry)
    return kept


def _check_parts(
    definition: Node,
    steps: list[ScoringStep],
    solver: Solver | None = None,
    choice_order: ChoiceOrder | None = None,
    trials: Trials | None = None,
) -> list[ScoringStep]:
    """Report parts of a task that do not go together; return the steps with all their metrics."""
    if choice_order is not None:
        from answerkey.spec.choice_order import add_order_metrics, check_choice_order

        check_choice_order(choice_order, solver, steps, definition)
        steps = add_order_metrics(choice_order, steps, definition)
    if solver is not None and solver.ranks_continuations:
        _check_ranking(solver, steps, definition)
    if trials is not None:
        from answerkey.spec.trials import check_aggregated_names

        check_aggregated_names(trials, steps, definition.entries["trials"])
    return steps


def _build_choice_order(node: Node) -> tuple[object, object]:
    from answerkey.spec.choice_order import build_choice_order

    return build_choice_order(node)


def _build_trials(node: Node) -> tuple[object, object]:
    from answerkey.spec.trials import build_trials

    return build_trials(node)


def _check_ranking(solver: Solver, steps: Scoring, definition: Node) -> None:
    for step in steps:
        if not getattr(step.scorer, "reads_logprobs", False):
            message = f"`{solver.type}` gets log-probabilities and no text, "
            message += f"which scorer `{step.key}` (`{step.scorer.type}`) reads"
            hint = "use the scorer `choice_probabilities`"
            definition.at("scorers", step.index).report("E108", message, hint)


def _build_solver(node: Node) -> tuple[Solver | None, object]:
    """Return the solver of a task, and its fields as plain values."""
    fields, solver = SOLVER.read(node)
    if solver is None:
        return None, None
    _, errors = solver.compile_templates()
    for name, error in errors:
        place = node
        for step in name.split("."):
            index = int(step) if step.isdigit() else step
            place = place.at(index)
        report_text(error, place)
    return solver, _dump(fields)


def build_design(fields: shapes.DesignFields, base: Design) -> Design:
    """Return the design of a task or of a metric; missing fields are those of `base`."""
    design = base
    columns = fields.group_by
    if isinstance(columns, str):
        columns = [columns]
    if columns is not None:
        design = design._replace(group_by=tuple(dict.fromkeys(columns)))
    if fields.cluster_by is not None:
        design = design._replace(cluster_by=fields.cluster_by)
    return design


#: Builds an optional part of a definition; returns it with its fields as plain values.
PartBuilder = Callable[[Node], tuple[object, object]]
_BUILDERS: dict[str, PartBuilder] = {
    "solver": _build_solver,
    "choice_order": _build_choice_order,
    "trials": _build_trials,
}


class ReadPart(NamedTuple):
    """A scorer or a metric as it was read: its place, its fields, and what they describe."""

    node: Node
    fields: Any
    built: Any


def _build_scoring(
    node: Node,
    trials: Trials | None,
    design: Design,
) -> list[ScoringStep]:
    """Return the steps of a list of scorers, without those that have mistakes.

    `design` is that of the task, for metrics that have none of their own.
    """
    parts: dict[int, ReadPart] = {}
    listed: dict[int, list[ReadPart]] = {}
    for index, written in enumerate(node.items):
        entry = replace_old_names(written, "scorer")
        part = _read_scorer(entry, index)
        nodes: Sequence[Node] = entry.field("metrics").items
        if part is not None:
            parts[index] = part
            nodes = nodes or _list_default_metrics(part, trials)
        listed[index] = []
        for number, metric in enumerate(nodes, start=1):
            metric_part = ReadPart(metric, *METRIC.read(metric, number=number))
            listed[index].append(metric_part)
    entries = [(part.node, part.fields.type) for part in parts.values()]
    keys = assign_keys(entries, "scorer", "in the task")
    steps = []
    for key, (index, part) in zip(keys, parts.items(), strict=True):
        step = ScoringStep(
            key=key,
            scorer=part.built,
            metrics=(),
            purpose=part.fields.purpose,
            display_name=part.fields.display_name,
            index=index,
            source={**_dump(part.fields), "key": key},
            snippets=_read_snippets(part, key),
        )
        steps.append(_key_metrics(step, listed[index], trials, design))
    return steps


def _read_scorer(entry: Node, index: int) -> ReadPart | None:
    earlier = len(entry.problems.errors)
    fields, scorer = SCORER.read(entry, number=index + 1)
    if scorer is None:
        return None
    is_sound = len(entry.problems.errors) == earlier
    _, errors = scorer.compiled
    for name, error in errors:
        if is_sound or getattr(scorer, name, None) is not None:
            report_text(error, entry.at(*name.split(".")))
    return ReadPart(entry, fields, scorer)


def _key_metrics(
    step: ScoringStep,
    listed: Sequence[ReadPart],
    trials: Trials | None,
    design: Design,
) -> ScoringStep:
    """Return a step with its metrics: their keys, their fields as plain values, their snippets."""
    parts = [part for part in listed if part.built is not None]
    entries = [(part.node, part.built.type) for part in parts]
    keys = assign_keys(entries, "metric", f"in scorer `{step.key}`")
    keyed = []
    sources = []
    snippets = step.snippets
    for key, part in zip(keys, parts, strict=True):
        _check_metric_fields(part, step, trials)
        scales = getattr(step.scorer, "scales", {})
        scale = metrics.find_scale(part.built, scales)
        metric_design = build_design(part.fields, design)
        keyed.append(KeyedMetric(key, part.built, metric_design, scale))
        sources.append({**_dump(part.fields), "key": key})
        snippets += _read_snippets(part, f"{step.key}.{key}")
    source = {**step.source, "metrics": sources}
    return replace(
        step,
        metrics=tuple(keyed),
        source=source,
        snippets=snippets,
    )


def _list_default_metrics(
    part: ReadPart,
    trials: Trials | None,
) -> list[Node]:
    """Return the metrics of a scorer that lists none: its own, or the mean of its main value.

    With trials there is a mean for each aggregate, named after it.
    """
    entry, fields, scorer = part
    listed = entry.field("metrics")
    defaults: Sequence[Any] = getattr(scorer, "default_metrics", None) or ()
    if not defaults and scorer.main_value is not None:
        defaults = _list_means(scorer.main_value, scorer.default_metric_name, trials)
    if not defaults:
        hint = "add `metrics`, such as `- {type: mean, field: …}`"
        entry.report("E108", f"a `{fields.type}` scorer needs `metrics`", hint)
    if listed.is_list:
        if defaults and fields.purpose == "score":
            message = "a scorer has no metrics: the run will have no number from it"
            hint = "leave `metrics` out to get the usual ones"
            entry.problems.notice(message, listed.place, hint)
        return []
    nodes = []
    for plain in defaults:
        nodes.append(from_plain(plain, entry.place, entry.problems))
    return nodes


def _list_means(
    value: str,
    title: str | None,
    trials: Trials | None,
) -> list[Json]:
    """Return the mean of a value, or of each of its aggregates."""
    names: dict[str, str | None] = {value: title}
    if trials is not None:
        names = {}
        for aggregator in trials.aggregators_of(value):
            label = aggregator.label
            names[f"{value}.{label}"] = f"{title} {label}".removesuffix(" mean")
    means: list[Json] = []
    for field_name, name in names.items():
        mean = {
            "type": "mean",
            "field": field_name,
            "name": name,
        }
        means.append(mean)
    return means


def _read_snippets(part: ReadPart, label: str) -> tuple[Snippet, ...]:
    """Return the snippets among the fields; one that cannot be run is reported."""
    snippets = []
    for name in type(part.fields).model_fields:
        source = getattr(part.fields, name)
        if name.endswith("_snippet") and isinstance(source, str):
            place = part.node.at(name).place
            snippet = Snippet(name.removesuffix("_snippet"), source, place, label)
            mistake = check_snippet(snippet)
            if mistake is not None:
                part.node.problems.report(mistake)
            snippets.append(snippet)
    return tuple(snippets)


def _check_metric_fields(
    part: ReadPart,
    step: ScoringStep,
    trials: Trials | None,
) -> None:
    """Report a metric of something that the scorer does not produce, or not as a number."""
    metric: Metric = part.built
    scorer = step.scorer
    names = step.list_names(trials)
    if names is None:
        return
    reads_numbers = getattr(metric, "reads_numbers", False)
    for name in metric.fields():
        node = part.node
        for scalar in part.node.entries.values():
            if scalar.value == name:
                node = scalar
        if reads_numbers and name in getattr(scorer, "text_names", ()):
            message = f"`{metric.type}` needs numbers, and `{name}` is text"
            hint = "`frequency` and the classification metrics read text"
            node.report("E115", message, hint)
        if name not in names and "<<" not in name:
            near = suggest(name, names) or ""
            message = f"metric field `{name}` is not produced by `{scorer.type}`"
            node.report("E115", message, f"{near} fields: {listing(names)}".strip())
