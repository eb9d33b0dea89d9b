"""A task's tree becomes a Task with nothing left to look up; every mistake is reported."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from answerkey import features, metrics
from answerkey.errors import Place, SpecError, listing, suggest
from answerkey.metrics import (
    METRICS,
    Design,
    KeyedMetric,
    Mean,
    Metric,
    Trials,
    ValueNames,
    expected_names,
)
from answerkey.metrics.base import number_name
from answerkey.sandbox import Snippet, check_snippet
from answerkey.scorers import (
    SCORERS,
    Action,
    Scorer,
    asks_model,
    find_role,
)
from answerkey.solvers import SOLVERS, Solver
from answerkey.spec import shapes
from answerkey.spec.config import Config
from answerkey.spec.nodes import Node, Plain, Steps, advise, from_plain, walk_scalars
from answerkey.spec.sources import build_filter, describe_filter
from answerkey.spec.validation import (
    Fields,
    Part,
    assign_keys,
    carry_over,
    fields_of,
    report_text,
    try_build,
    validate_node,
)
from answerkey.templates import ACTION_NAMES, find_whole
from answerkey.types import Purpose, SampleFacts, Samples

if TYPE_CHECKING:
    from answerkey.solvers.choice_order import ChoiceOrder

SCORER = Part("scorer", SCORERS, shapes.ScorerCommon, "Scorer")
METRIC = Part("metric", METRICS, shapes.MetricCommon, "Metric")
SOLVER = Part("solver", SOLVERS)
#: Fields for readers, on which no number depends.
_WORDS_ONLY = frozenset({"display_name", "description", "long_description"})
_UNBIASED_NOTICE = (
    "`pass@k` and `pass^k` are the unbiased estimators here: "
    "1 - C(n-c, k)/C(n, k) and C(c, k)/C(n, k) of c successes in n trials"
)
_PLUGIN_HINT = "for the plug-in forms 1 - (1-p)^k and p^k write `pass@k_plugin` and `pass^k_plugin`"


@dataclass(frozen=True)
class ScoringStep:
    """A scorer with its key (unique in the task), its purpose, and the metrics over its scores.

    `index` is its place in the file's list of scorers; `source` has its fields as plain values.
    """

    key: str
    scorer: Scorer
    metrics: tuple[KeyedMetric, ...]
    purpose: Purpose = "score"
    display_name: str | None = None
    index: int = 0
    source: Mapping[str, object] = field(
        default_factory=dict,
        repr=False,
        compare=False,
    )
    snippets: tuple[Snippet, ...] = field(
        default=(),
        repr=False,
        compare=False,
    )

    @property
    def model_path(self) -> Steps:
        """Where in a task the scorer names the model that it asks."""
        path = ("definition", "scorers", self.index)
        if find_role(self.scorer) == "fallback":
            return (*path, "extraction", "fallback")
        return (*path, "model_key")


Scoring = Sequence[ScoringStep]


@dataclass(frozen=True)
class Task:
    """What is asked and how replies are scored.

    `config` holds the values of its parameters and `dataset_columns` those that name columns, both
    by parameter key; `source` is the resolved task as plain JSON, from which `task_from_source`
    builds it again.
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
    places: Node = field(
        default=Node(None),
        repr=False,
        compare=False,
    )
    config_places: Mapping[str, Place] = field(
        default_factory=dict,
        repr=False,
        compare=False,
    )

    @cached_property
    def main_step(self) -> ScoringStep:
        """The first scorer with purpose `score`, else the first; its counts are the task's."""
        for step in self.scoring:
            if step.purpose == "score":
                return step
        return self.scoring[0]

    @property
    def needs_model(self) -> bool:
        """Whether its solver asks a model."""
        return self.solver is not None and self.solver.needs_model

    @cached_property
    def num_trials(self) -> int:
        """How many completions each sample gets."""
        return self.trials.num_trials if self.trials else 1

    @cached_property
    def design_columns(self) -> tuple[str, ...]:
        """The dataset columns by which metrics group or cluster samples, each once."""
        columns: dict[str, None] = {}
        for step in self.scoring:
            for metric in step.metrics:
                columns |= dict.fromkeys(metric.design.columns)
        return tuple(columns)

    def sample_facts(self, samples: Samples) -> SampleFacts | None:
        """Return the choices, truths and option texts that a scorer knows; the first that does."""
        for step in self.scoring:
            facts = step.scorer.sample_facts(samples)
            if facts:
                if self.choice_order is None or any(facts.options):
                    return facts
                from answerkey.solvers.choice_order import option_texts

                options = option_texts(self.choice_order, samples, facts.choices)
                return facts._replace(options=options)
        return None

    def place(self, *path: str | int) -> Place:
        """Return where a part of the task stands.

        `("config_spec", name)` is where that value was given.
        """
        if path[:1] == ("config_spec",):
            place = self.config_places.get(str(path[-1]))
            if place is not None:
                return place
        return self.places.at(*path).place


class PlannedMetric(NamedTuple):
    """A metric of a task, and what its values will be called."""

    step: ScoringStep
    metric: KeyedMetric
    names: ValueNames


def find_metrics(
    task: Task,
    name: str | None = None,
) -> list[PlannedMetric]:
    """Return the metrics of a task, or those that may have a value of this name.

    The name may have the key of the metric in front, and that of the scorer.
    """
    matching = []
    for step in task.scoring:
        for metric in step.metrics:
            names = expected_names(metric.metric)
            is_meant = name is None
            for prefix in ("", f"{metric.key}_", f"{step.key}_{metric.key}_"):
                if name is not None and name.startswith(prefix):
                    is_meant |= names.allow(name.removeprefix(prefix))
            if is_meant:
                matching.append(PlannedMetric(step, metric, names))
    return matching


def find_compared(task: Task, name: str) -> tuple[str, str] | None:
    """Return the scorer and the value whose mean a metric is, or None if it is no plain mean.

    With trials, the mean of their mean is one.
    """
    for step, metric, _ in find_metrics(task, name):
        if not isinstance(metric.metric, Mean):
            continue
        value, _, label = metric.metric.field.partition(".")
        if task.trials is not None:
            main_aggregator, *_ = task.trials.aggregators_of(value)
            label = label or main_aggregator.label
            if label == "mean":
                label = ""
        if not label:
            return step.key, value
    return None


def build_task(node: Node, config: Config) -> Task | None:
    """Return the task with config values filled in; None when it cannot be built at all."""
    if not node.is_map:
        node.report("E108", "a task must be a mapping", "it begins with `key: …`")
        return None
    task = carry_over(node.without("config_spec"), "task")
    definition = task.field("definition")
    choice = definition.field("dataset")
    if choice.text and find_whole(choice.text):
        # `dataset: << config.x >>` is short for `dataset: {key: << config.x >>}`.
        mapping = choice.changed({}).having("key", choice)
        definition = definition.having("dataset", mapping)
        task = task.having("definition", definition)
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
    definition = carry_over(node.entries["definition"], "definition")
    choice = carry_over(definition.field("dataset"), "dataset choice")
    if not choice.is_null:
        definition = definition.having("dataset", choice)
    parts = validate_node(shapes.Definition, definition, "`definition`")
    design = Design()
    if parts is not None:
        design = build_design(parts, design)
    built: Plain = {}
    plain: Plain = {}
    for name, build_part in _BUILDERS.items():
        if not definition.field(name).is_null:
            built[name], plain[name] = build_part(definition.entries[name])
    trials = built.get("trials")
    steps = _build_scoring(definition.field("scorers"), trials, design)
    if built:
        steps = _check_parts(definition, steps, **built)
    actions: list[Action] = []
    if "actions" in definition.entries:
        actions = _build_actions(definition.entries["actions"], steps)
        plain["actions"] = list(map(_describe_action, actions)) or None
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
    plain: Plain,
) -> Plain:
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


def _dump(fields: Fields, *, exclude: set[str] | None = None) -> Plain:
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
        if prompt and asks_model(step.scorer):
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
        _check_choice_order(choice_order, solver, steps, definition)
        steps = _add_order_metrics(choice_order, steps, definition)
    if solver is not None and solver.ranks_continuations:
        _check_ranking(solver, steps, definition)
    if trials is not None:
        _check_aggregated_names(trials, steps, definition.entries["trials"])
    return steps


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


def _build_choice_order(node: Node) -> tuple[ChoiceOrder | None, object]:
    """Return the choice order of a task, and its fields as plain values."""
    from answerkey.solvers.choice_order import ChoiceOrder

    fields = validate_node(fields_of(ChoiceOrder), node, "`choice_order`")
    order = try_build(fields, node)
    if fields is None or order is None:
        return None, None
    return order, fields.model_dump(mode="json")


def _check_choice_order(
    order: ChoiceOrder,
    solver: Solver | None,
    steps: Scoring,
    definition: Node,
) -> None:
    """Report scorers and solvers that read the options in the order of the row."""
    for step in steps:
        if not _has(step, "follows_order"):
            message = f"scorer `{step.key}` (`{step.scorer.type}`) reads the truth as it stands "
            message += "in the row, and `choice_order` moves the options"
            hint = "with `choice_order` use `string_equals_mcqa`, whose truth moves with its option"
            definition.at("scorers", step.index).report("E108", message, hint)
    if solver is not None and solver.reads_column and order.orders != "original":
        message = f"`{solver.type}` reads what was said to the options as they stand, "
        message += f"and `orders` is `{order.orders}`"
        hint = "write `orders: original`, "
        hint += "or bring a file with `option_order` by `--completions FILE`"
        definition.at("choice_order", "orders").report("E108", message, hint)


def _has(step: ScoringStep, name: str) -> bool:
    return bool(getattr(step.scorer, name, False))


def _add_order_metrics(
    order: ChoiceOrder,
    steps: Scoring,
    definition: Node,
) -> list[ScoringStep]:
    """Return the steps with the metrics that `choice_order` brings along."""
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


def _check_ranking(solver: Solver, steps: Scoring, definition: Node) -> None:
    for step in steps:
        if not _has(step, "reads_logprobs"):
            message = f"`{solver.type}` gets log-probabilities and no text, "
            message += f"which scorer `{step.key}` (`{step.scorer.type}`) reads"
            hint = "use the scorer `choice_probabilities`"
            definition.at("scorers", step.index).report("E108", message, hint)


def _build_actions(node: Node, steps: Scoring) -> list[Action]:
    actions = []
    entries = []
    for number, entry in enumerate(node.items, start=1):
        fields = validate_node(shapes.ActionFields, entry, f"action {number}")
        condition = None
        if "filter" in entry.entries:
            condition = build_filter(entry.entries["filter"], ACTION_NAMES)
        if fields is not None and condition is not None:
            action = Action(
                key=fields.key,
                filter=condition,
                action=fields.action,
            )
            _check_action(action, entry.at("filter", "expression"), steps)
            actions.append(action)
            entries.append((entry, fields.key))
    assign_keys(entries, "action", "in the task")
    return actions


def _describe_action(action: Action) -> Plain:
    return {
        "key": action.key,
        "action": action.action,
        "filter": describe_filter(action.filter),
    }


def _check_action(action: Action, node: Node, steps: Scoring) -> None:
    """Report a filter that reads a scorer or a value that does not exist (E113)."""
    scorers = {step.key: step.scorer for step in steps}
    try:
        paths = action.filter.template.paths_from("scores")
    except SpecError:
        return
    for path in filter(None, sorted(paths, key=str)):
        key, *inner = map(str, path)
        if key not in scorers:
            if not node.problems.errors:
                message = f"action `{action.key}`: no scorer has the key `{key}`"
                node.report("E113", message, advise(key, scorers, "scorers"))
            continue
        names = _list_names(scorers[key])
        if not inner or names is None:
            continue
        value = inner[0]
        if value.split(".")[0] not in names:
            message = f"action `{action.key}`: scorer `{key}` has no value `{value}`"
            node.report("E113", message, advise(value, names, "values"))


def _list_names(
    scorer: Scorer,
    trials: Trials | None = None,
) -> list[str] | None:
    """Return the names of a scorer's values and metadata; None if only the scores can tell."""
    if scorer.value_types is None or scorer.metadata_types is None:
        return None
    names = []
    for value in scorer.value_types:
        if trials is None:
            names.append(value)
        else:
            names += trials.names_of(value)
    return [*names, *scorer.metadata_types]


def build_design(fields: shapes.DesignFields, base: Design) -> Design:
    """Return the design of a task or of a metric; what it leaves out is that of `base`."""
    design = base
    columns = fields.group_by
    if isinstance(columns, str):
        columns = [columns]
    if columns is not None:
        design = design._replace(group_by=tuple(dict.fromkeys(columns)))
    if fields.cluster_by is not None:
        design = design._replace(cluster_by=fields.cluster_by)
    return design


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
    definition = definition.having("trials", trials)
    return task.having("definition", definition)


def _build_trials(node: Node) -> tuple[Trials | None, object]:
    """Return the trials of a definition, None when `num_trials` is wrong; and as plain values."""
    fields = validate_node(shapes.TrialsFields, node, "`trials`")
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


#: Builds an optional part of a definition; returns it with its fields as plain values.
PartBuilder = Callable[[Node], tuple[object, object]]
_BUILDERS: dict[str, PartBuilder] = {
    "solver": _build_solver,
    "choice_order": _build_choice_order,
    "trials": _build_trials,
}


def _check_aggregator(fields: shapes.AggregatorFields, num_trials: int) -> str | None:
    """Return what is wrong with the `k` of an aggregator."""
    name = fields.function
    k = fields.k
    if name in metrics.WITH_K and k is None:
        return f"the aggregator `{name}` needs `k`"
    if name not in metrics.WITH_K and k is not None:
        return f"the aggregator `{name}` has no `k`"
    if k is not None and name in metrics.UNBIASED and k > num_trials:
        return f"`{name}` with `k` {k} needs {k} trials, and there are {num_trials}"
    return None


def _check_aggregated_names(
    trials: Trials,
    steps: Scoring,
    node: Node,
) -> None:
    """Report aggregators of something that is no value of a scorer."""
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
        entry = carry_over(written, "scorer")
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
        _check_metric_fields(part, step.scorer, trials)
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
            message = "a scorer has no metrics: the run will have no number of it"
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
) -> list[Plain]:
    """Return the mean of a value, or of each of its aggregates."""
    names: dict[str, str | None] = {value: title}
    if trials is not None:
        names = {}
        for aggregator in trials.aggregators_of(value):
            label = aggregator.label
            names[f"{value}.{label}"] = f"{title} {label}".removesuffix(" mean")
    means: list[Plain] = []
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
    scorer: Scorer,
    trials: Trials | None,
) -> None:
    """Report a metric of something that the scorer does not produce, or not as a number."""
    metric: Metric = part.built
    names = _list_names(scorer, trials)
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
