"""A task's tree becomes a Task with nothing left to look up; every mistake is reported."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import (
    asdict,
    dataclass,
    field,
    replace,
)
from typing import Any, NamedTuple

from answerkey import (
    features,
    metrics,
    solvers,
)
from answerkey.errors import (
    Place,
    SpecError,
    listing,
    suggest,
)
from answerkey.metrics import (
    METRICS,
    Design,
    KeyedMetric,
    Mean,
    Metric,
    Trials,
    ValueNames,
    foresee_names,
)
from answerkey.sandbox import Snippet, check_snippet
from answerkey.scorers import (
    SCORERS,
    Action,
    Scorer,
    asks_model,
    compile_templates,
    find_role,
)
from answerkey.solvers import (
    SOLVERS,
    ChoiceOrder,
    Solver,
)
from answerkey.spec import shapes, validation
from answerkey.spec.config import Config
from answerkey.spec.nodes import (
    BROKEN,
    Node,
    Problems,
    from_plain,
    name_key,
    walk_scalars,
)
from answerkey.spec.shapes import carry_over
from answerkey.spec.sources import build_filter, describe_filter
from answerkey.spec.validation import (
    Fields,
    Part,
    assign_keys,
    report_template,
    validate_node,
)
from answerkey.templates import ACTION_NAMES, find_whole
from answerkey.text import parse_syntax
from answerkey.types import (
    Known,
    Purpose,
    Samples,
)

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
    source: Mapping[str, object] = field(default_factory=dict, repr=False, compare=False)
    snippets: tuple[Snippet, ...] = field(default=(), repr=False, compare=False)

    @property
    def model_path(self) -> tuple[str | int, ...]:
        """Where in a task the scorer names the model that it asks."""
        path = ("definition", "scorers", self.index)
        if find_role(self.scorer) == "fallback":
            return (*path, "extraction", "fallback")
        return (*path, "model_key")


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
    places: Node = field(default=Node(None, Place()), repr=False, compare=False)
    config_places: Mapping[str, Place] = field(default_factory=dict, repr=False, compare=False)

    @property
    def main_step(self) -> ScoringStep:
        """The first scorer with purpose `score`, else the first; its counts are the task's."""
        return next((step for step in self.scoring if step.purpose == "score"), self.scoring[0])

    @property
    def num_trials(self) -> int:
        """How many completions each sample gets."""
        return self.trials.num_trials if self.trials else 1

    @property
    def design_columns(self) -> tuple[str, ...]:
        """The dataset columns by which metrics group or cluster samples, each once."""
        columns: dict[str, None] = {}
        for step in self.scoring:
            for metric in step.metrics:
                columns |= dict.fromkeys(metric.design.columns)
        return tuple(columns)

    def sample_facts(self, samples: Samples) -> Known | None:
        """Return the choices, truths and option texts that a scorer knows; the first that does."""
        for step in self.scoring:
            facts = step.scorer.sample_facts(samples)
            if facts:
                if self.choice_order is None or any(facts.options):
                    return facts
                options = solvers.option_texts(self.choice_order, samples, facts.choices)
                return replace(facts, options=options)
        return None

    def place(self, *path: str | int) -> Place:
        """Return where a part of the task stands.

        `("config_spec", name)` is where that value was given.
        """
        if path[:1] == ("config_spec",) and path[-1] in self.config_places:
            return self.config_places[str(path[-1])]
        return self.places.at(*path).place


class ForeseenMetric(NamedTuple):
    """A metric of a task, and what its values will be called."""

    step: ScoringStep
    metric: KeyedMetric
    names: ValueNames


def find_metrics(task: Task, name: str | None = None) -> list[ForeseenMetric]:
    """Return the metrics of a task, or those that may have a value of this name.

    The name may have the key of the metric in front, and that of the scorer.
    """
    matching = []
    for step in task.scoring:
        for metric in step.metrics:
            names = foresee_names(metric.metric)
            prefixes = ("", f"{metric.key}_", f"{step.key}_{metric.key}_")
            if name is None or any(
                names.allow(name.removeprefix(prefix))
                for prefix in prefixes
                if name.startswith(prefix)
            ):
                matching.append(ForeseenMetric(step, metric, names))
    return matching


def find_compared(task: Task, name: str) -> tuple[str, str] | None:
    """Return the scorer and the value whose mean a metric is, or None if it is no plain mean.

    With trials, the mean of their mean is one.
    """
    for step, metric, _ in find_metrics(task, name):
        if not isinstance(metric.metric, Mean):
            continue
        value, _, label = metric.metric.field.partition(".")
        if task.trials is None:
            if not label:
                return step.key, value
        elif (label or task.trials.aggregators_of(value)[0].label) == "mean":
            return step.key, value
    return None


def hash_definition(definition: object) -> str:
    """Return the SHA-256 of a resolved definition, without names and descriptions for readers."""
    plain = _strip_words(definition)
    text = json.dumps(
        plain,
        sort_keys=True,
        ensure_ascii=False,
        separators=(",", ":"),
    )
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _strip_words(value: object) -> object:
    if isinstance(value, Mapping):
        kept = {}
        for key, entry in value.items():
            if key not in _WORDS_ONLY and entry is not None:
                kept[key] = _strip_words(entry)
        return kept
    if isinstance(value, list | tuple):
        return list(map(_strip_words, value))
    return value


def build_task(
    node: Node,
    config: Config,
    problems: Problems,
) -> Task | None:
    """Return the task with config values filled in; None when it cannot be built at all."""
    if not node.is_map:
        if not node.is_broken:
            problems.add("E108", "a task must be a mapping", node.place, "it begins with `key: …`")
        return None
    task = carry_over(node.without("config_spec"), "task", problems)
    definition = task.field("definition")
    choice = definition.field("dataset")
    if choice.text and find_whole(choice.text):
        # `dataset: << config.x >>` is short for `dataset: {key: << config.x >>}`.
        mapping = Node({"key": choice}, choice.place, keys={"key": choice.place})
        task = task.having("definition", definition.having("dataset", mapping))
    return _build(config.fill(task, problems), config, problems, config.of_type("dataset_column"))


def task_from_source(source: Mapping[str, Any]) -> Task:
    """Return the task that `Task.source` describes; raises SpecError when it is none."""
    problems = Problems()
    place = Place(file=source.get("file"))
    plain = dict(source)
    config = plain.pop("config", None) or {}
    columns = plain.pop("dataset_columns", None) or {}
    plain.pop("file", None)
    task = _build(from_plain(plain, place), Config(values=config), problems, columns)
    if problems.errors:
        raise problems.errors[0]
    if task is None:
        raise SpecError("E108", "the stored task cannot be read", where=place)
    return task


def _build(
    node: Node,
    config: Config,
    problems: Problems,
    columns: Mapping[str, str],
) -> Task | None:
    fields = _read_names(node, problems)
    definition = _read_definition(node, problems)
    parts = validate_node(shapes.Definition, definition, problems, name="`definition`")
    if not definition.is_map:
        return None
    trials = build_trials(definition.field("trials"), problems)
    steps = _build_scoring(definition.field("scorers"), trials, build_design(parts), problems)
    solver, solver_source = _build_solver(definition.field("solver"), problems)
    order, order_source = _build_choice_order(definition.field("choice_order"), problems)
    if order is not None:
        _check_choice_order(order, solver, steps, definition, problems)
        steps = _add_order_metrics(order, steps, definition, problems)
    if solver is not None and solver.ranks_continuations:
        _check_ranking(solver, steps, definition, problems)
    if trials is not None:
        _check_aggregated_names(trials, steps, definition.entries["trials"], problems)
    actions = _build_actions(definition.field("actions"), problems)
    if len(steps) == len(definition.field("scorers").items):
        _check_actions(definition.field("actions"), steps, actions, problems)
    if parts is None or not steps:
        return None
    # The task as plain values, with every key given and every old name gone.
    resolved: dict[str, object] = {
        "type": "benchmark_task",
        "dataset": parts.dataset and {"key": parts.dataset.key},
        "solver": solver_source,
        "scorers": [step.source for step in steps],
        "trials": trials and asdict(trials),
        "choice_order": order_source,
        **parts.model_dump(include=set(shapes.DesignFields.model_fields)),
        "actions": list(map(_describe_action, actions)) or None,
    }
    source = {
        **fields.model_dump(mode="json", exclude={"config_spec", "definition"}, exclude_none=True),
        "definition": _drop_unset(resolved),
        "config": dict(config.values),
        "dataset_columns": dict(columns),
        "file": node.place.file,
    }
    source = json.loads(json.dumps(source, ensure_ascii=False, default=str))
    return Task(
        key=fields.key,
        display_name=fields.display_name or fields.key,
        description=fields.description or "",
        long_description=fields.long_description,
        tags=fields.tags,
        config=config.values,
        dataset_columns=columns,
        dataset_key=parts.dataset.key if parts.dataset else None,
        solver=solver,
        scoring=tuple(steps),
        actions=tuple(actions),
        trials=trials,
        choice_order=order,
        snippets=tuple(snippet for step in steps for snippet in step.snippets),
        fingerprint=_hash_task(source["definition"], steps),
        source=source,
        file=node.place.file,
        places=node,
        config_places=config.places,
    )


def _read_names(node: Node, problems: Problems) -> shapes.TaskFields:
    """Return the fields of a task; stand-ins for wrong ones, so that the rest can be checked."""
    fields = validate_node(shapes.TaskFields, node, problems, name="the task")
    if fields is None:
        key = name_key(node.key or "") or "task"
        fields = shapes.TaskFields(key=key, definition=None)
    return fields


def _drop_unset(plain: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in plain.items() if value is not None}


def _read_definition(task: Node, problems: Problems) -> Node:
    """Return the definition of a task without old names; a broken node when there is none."""
    if "definition" not in task.entries:
        return Node(BROKEN, task.place, is_broken=True)
    definition = carry_over(task.entries["definition"], "definition", problems)
    if "dataset" not in definition.entries:
        return definition
    choice = carry_over(definition.entries["dataset"], "dataset choice", problems)
    return definition.having("dataset", choice)


def _hash_task(definition: object, steps: Sequence[ScoringStep]) -> str:
    """Return the fingerprint of a task: our own prompts decide numbers like those of the user."""
    prompts = []
    for step in steps:
        prompt = getattr(step.scorer, "model_prompt", None)
        if prompt and asks_model(step.scorer):
            prompts.append(prompt)
    return hash_definition([definition, *prompts] if prompts else definition)


def _build_solver(node: Node, problems: Problems) -> tuple[Solver | None, object]:
    """Return the solver of a task, and its fields as plain values."""
    if node.is_null:
        return None, None
    fields, solver = SOLVER.read(node, problems)
    if solver is None:
        return None, None
    for name, error in solver.compile_templates()[1]:
        path = [int(step) if step.isdigit() else step for step in name.split(".")]
        report_template(error, node.at(*path), problems)
    return solver, _dump(fields)


def _build_choice_order(node: Node, problems: Problems) -> tuple[ChoiceOrder | None, object]:
    """Return the choice order of a task, and its fields as plain values."""
    if node.is_null:
        return None, None
    model = validation.fields_of(ChoiceOrder)
    fields = validate_node(model, node, problems, name="`choice_order`")
    order = validation.try_build(fields, node, problems)
    if fields is None or order is None:
        return None, None
    return order, fields.model_dump(mode="json")


def _follows_order(step: ScoringStep) -> bool:
    return bool(getattr(step.scorer, "follows_order", False))


def _reads_logprobs(step: ScoringStep) -> bool:
    return bool(getattr(step.scorer, "reads_logprobs", False))


def _check_choice_order(
    order: ChoiceOrder,
    solver: Solver | None,
    steps: Sequence[ScoringStep],
    definition: Node,
    problems: Problems,
) -> None:
    """Report scorers and solvers that read the options in the order of the row."""
    for step in steps:
        if not _follows_order(step):
            message = f"scorer `{step.key}` (`{step.scorer.type}`) reads the truth as it stands "
            message += "in the row, and `choice_order` moves the options"
            hint = "with `choice_order` use `string_equals_mcqa`, whose truth moves with its option"
            problems.add("E108", message, definition.at("scorers", step.index).place, hint)
    if solver is not None and solver.reads_column and order.orders != "original":
        message = f"`{solver.type}` reads what was said to the options as they stand, "
        message += f"and `orders` is `{order.orders}`"
        hint = "write `orders: original`, "
        hint += "or bring a file with `option_order` by `--completions FILE`"
        problems.add("E108", message, definition.at("choice_order", "orders").place, hint)


def _add_order_metrics(
    order: ChoiceOrder,
    steps: Sequence[ScoringStep],
    definition: Node,
    problems: Problems,
) -> list[ScoringStep]:
    """Return the steps with the metrics that `choice_order` brings along."""
    robustness = features.load_choice_order()
    ordered = list(steps)
    for index, step in enumerate(ordered):
        if step.purpose == "score":
            if _follows_order(step):
                metric = robustness.ChoiceOrderMetric(order.orders)
                ordered[index] = _add_metric(step, "choice_order", metric)
            break
    if order.pride is None:
        return ordered
    for index, step in enumerate(ordered):
        if _reads_logprobs(step):
            metric = robustness.PrideMetric(order.pride.share, order.pride.seed)
            ordered[index] = _add_metric(step, "pride", metric)
            return ordered
    message = "`pride` takes the prior out of probabilities, and no scorer of the task reads any"
    hint = "add the scorer `choice_probabilities`, or leave `pride` out"
    problems.add("E108", message, definition.at("choice_order", "pride").place, hint)
    return ordered


def _add_metric(
    step: ScoringStep,
    name: str,
    metric: Metric,
) -> ScoringStep:
    design = step.metrics[0].design if step.metrics else Design()
    key = validation.number_key(name, {keyed.key for keyed in step.metrics})
    keyed = KeyedMetric(key, metric, replace(design, group_by=()))
    return replace(step, metrics=(*step.metrics, keyed))


def _check_ranking(
    solver: Solver,
    steps: Sequence[ScoringStep],
    definition: Node,
    problems: Problems,
) -> None:
    for step in steps:
        if not _reads_logprobs(step):
            message = f"`{solver.type}` gets log-probabilities and no text, "
            message += f"which scorer `{step.key}` (`{step.scorer.type}`) reads"
            place = definition.at("scorers", step.index).place
            problems.add("E108", message, place, "use the scorer `choice_probabilities`")


def _build_actions(node: Node, problems: Problems) -> list[Action]:
    actions = []
    candidates = []
    for number, entry in enumerate(node.items, start=1):
        fields = validate_node(shapes.ActionFields, entry, problems, name=f"action {number}")
        condition = None
        if "filter" in entry.entries:
            condition = build_filter(entry.entries["filter"], problems, names=ACTION_NAMES)
        if fields is not None and condition is not None:
            actions.append(Action(key=fields.key, filter=condition, action=fields.action))
            candidates.append((fields.key, fields.key, entry.place))
    assign_keys(candidates, problems, what="action", within="in the task")
    return actions


def _describe_action(action: Action) -> dict[str, object]:
    return {"key": action.key, "action": action.action, "filter": describe_filter(action.filter)}


def _check_actions(
    node: Node,
    steps: Sequence[ScoringStep],
    actions: Sequence[Action],
    problems: Problems,
) -> None:
    """Report filters of actions that read a scorer or a value that does not exist (E113)."""
    scorers = {step.key: step.scorer for step in steps}
    entries = {entry.key: entry for entry in node.items}
    for action in actions:
        where = entries[action.key].at("filter", "expression").place
        try:
            paths = sorted(action.filter.template.paths_from("scores"), key=str)
        except SpecError:
            continue
        for path in filter(None, paths):
            key, *inner = map(str, path)
            if key not in scorers:
                message = f"action `{action.key}`: no scorer has the key `{key}`"
                hint = suggest(key, scorers) or f"scorers: {listing(scorers)}"
                problems.add("E113", message, where, hint)
                continue
            names = _list_names(scorers[key])
            if inner and names is not None and inner[0].split(".")[0] not in names:
                message = f"action `{action.key}`: scorer `{key}` has no value `{inner[0]}`"
                hint = suggest(inner[0], names) or f"values: {listing(names)}"
                problems.add("E113", message, where, hint)


def _list_names(scorer: Scorer | type[Scorer], trials: Trials | None = None) -> list[str] | None:
    """Return the names of a scorer's values and metadata; None if only the scores can tell."""
    if scorer.value_names is None or scorer.metadata_names is None:
        return None
    values = list(scorer.value_names)
    if trials is not None:
        values = [label for name in values for label in trials.names_of(name)]
    return [*values, *scorer.metadata_names]


def build_design(fields: shapes.DesignFields | None, base: Design | None = None) -> Design:
    """Return the design of a task or of a metric; what it leaves out is that of `base`."""
    if fields is None:
        return base or Design()
    columns = fields.group_by
    if isinstance(columns, str):
        columns = [columns]
    values = {
        "group_by": None if columns is None else tuple(dict.fromkeys(columns)),
        "cluster_by": fields.cluster_by,
        "is_corrected": fields.cluster_correction,
    }
    changes: dict[str, Any] = _drop_unset(values)
    return replace(base or Design(), **changes)


def override_trials(task: Node, *layers: Node) -> Node:
    """Return a task with what the run says about its trials; a later layer wins, key by key."""
    definition = task.field("definition")
    trials = definition.field("trials")
    if not definition.is_map:
        return task
    for layer in layers:
        if trials.is_map and layer.is_map:
            keys = trials.keys | layer.keys
            trials = Node(trials.entries | layer.entries, layer.place, keys=keys)
        elif not layer.is_null:
            trials = layer
    if trials.is_null:
        return task
    return task.having("definition", definition.having("trials", trials))


def build_trials(node: Node, problems: Problems) -> Trials | None:
    """Return the trials of a definition; None when there are none, or `num_trials` is wrong."""
    if node.is_null:
        return None
    fields = validate_node(shapes.TrialsFields, node, problems, name="`trials`")
    if fields is None:
        return None
    chosen: dict[str, metrics.ScoreAggregator] = {}
    for index, entry in enumerate(fields.score_aggregators or ()):
        where = node.at("score_aggregators", index).place
        names = {entry.score_name, entry.aggregator.score_name} - {None}
        mistake, hint = _check_aggregator(entry.aggregator, fields.num_trials)
        if not names:
            mistake = "`score_name` is missing in `score_aggregators` of `trials`"
        elif len(names) > 1:
            mistake = "`score_name` and that of the `aggregator` differ "
            mistake += "in `score_aggregators` of `trials`"
        if mistake:
            problems.add("E108", mistake, where, hint)
            continue
        aggregator = metrics.Aggregator(entry.aggregator.function, entry.aggregator.k)
        name = str(names.pop())
        label = f"{name}.{aggregator.label}"
        if label in chosen:
            problems.add("E108", f"the aggregate `{label}` is listed twice", where)
        chosen.setdefault(label, metrics.ScoreAggregator(name, aggregator))
        if aggregator.function in metrics.UNBIASED:
            problems.notice(_UNBIASED_NOTICE, where, _PLUGIN_HINT)
    return Trials(fields.num_trials, tuple(chosen.values()))


def _check_aggregator(fields: shapes.AggregatorFields, num_trials: int) -> tuple[str, str | None]:
    """Return what is wrong with the `k` of an aggregator, or "", and a hint."""
    name = fields.function
    k = fields.k
    if name not in metrics.WITH_K:
        if k is not None:
            return f"the aggregator `{name}` has no `k`", "leave `k` out"
    elif k is None:
        return f"the aggregator `{name}` needs `k`", f"write `{{function: {name}, k: 1}}`"
    elif name in metrics.UNBIASED and k > num_trials:
        message = f"`{name}` with `k` {k} needs {k} trials, and there are {num_trials}"
        return message, f"give at least {k} trials, or a smaller `k`"
    return "", None


def _check_aggregated_names(
    trials: Trials,
    steps: Sequence[ScoringStep],
    node: Node,
    problems: Problems,
) -> None:
    """Report aggregators of something that is no value of a scorer."""
    scorers = [step.scorer for step in steps]
    if not scorers or any(scorer.value_names is None for scorer in scorers):
        return
    names, metadata = _list_score_names(scorers)
    for aggregate in trials.score_aggregators:
        name = aggregate.score_name
        if name in names:
            continue
        message = f"`score_name` `{name}` is not a value of a scorer of the task"
        hint = suggest(name, names) or f"values: {listing(names)}"
        if name in metadata:
            hint = f"metadata has no aggregate: its metrics count the trials; {hint}"
        places = {node.value: node.place for _, node in walk_scalars(node.at("score_aggregators"))}
        problems.add("E115", message, places.get(name, node.place), hint)


def _list_score_names(scorers: Sequence[Scorer]) -> tuple[set[str], set[str]]:
    """Return the names of values and of metadata."""
    names: set[str] = set()
    metadata: set[str] = set()
    for scorer in scorers:
        names.update(scorer.value_names or ())
        metadata.update(scorer.metadata_names or ())
    return names, metadata


def _build_scoring(
    node: Node,
    trials: Trials | None,
    design: Design,
    problems: Problems,
) -> list[ScoringStep]:
    """Return the steps of a list of scorers, without those that have mistakes.

    `design` is that of the task, for metrics that have none of their own.
    """
    entries: list[tuple[int, Node, Any, Scorer | None]] = []
    for index, written in enumerate(node.items):
        entry = carry_over(written, "scorer", problems)
        fields, scorer = SCORER.read(entry, problems, number=index + 1)
        if fields is not None:
            entries.append((index, entry, fields, scorer))
        elif entry.at("type").text in SCORERS:
            for number, part in enumerate(entry.at("metrics").items, start=1):
                METRIC.read(part, problems, number=number)
    candidates = [(fields.key, fields.type, entry.place) for _, entry, fields, _ in entries]
    keys = assign_keys(candidates, problems, what="scorer", within="in the task")
    steps = []
    for (index, entry, fields, scorer), key in zip(entries, keys, strict=True):
        _check_templates(scorer, entry, problems)
        keyed = []
        sources = []
        snippets = _read_snippets(fields, entry, key, problems)
        for part, name, metric_fields, metric in _read_metrics(
            entry, fields, scorer, key, trials, problems
        ):
            if part is not entry:
                _check_metric_fields(metric, SCORERS[fields.type], trials, part, problems)
                snippets += _read_snippets(metric_fields, part, f"{key}.{name}", problems)
            scale = metrics.find_scale(metric, getattr(scorer, "scales", {}))
            keyed.append(KeyedMetric(name, metric, build_design(metric_fields, design), scale))
            sources.append({**_dump(metric_fields), "key": name})
        if scorer is not None:
            step = ScoringStep(
                key,
                scorer,
                tuple(keyed),
                fields.purpose,
                fields.display_name,
                index,
                {**_dump(fields), "key": key, "metrics": sources},
                tuple(snippets),
            )
            steps.append(step)
    return steps


def _read_metrics(
    entry: Node,
    fields: Any,  # noqa: ANN401 - those of some scorer
    scorer: Scorer | None,
    key: str,
    trials: Trials | None,
    problems: Problems,
) -> list[tuple[Node, str, Any, Metric]]:
    """Return the metrics of a scorer with their nodes, keys and fields.

    A scorer without `metrics` has the default ones, which stand at the scorer's node.
    """
    read: list[tuple[Node, Any, Metric]] = []
    defaults = _list_default_metrics(scorer, trials)
    listed = entry.field("metrics")
    for number, part in enumerate(listed.items, start=1):
        metric_fields, metric = METRIC.read(part, problems, number=number)
        if metric is not None:
            read.append((part, metric_fields, metric))
    if fields.metrics is None:
        for plain in defaults:
            metric_fields = METRIC.model(str(plain["type"])).model_validate(plain)
            read.append((entry, metric_fields, validation.build(metric_fields)))
    if not listed.items and not defaults and SCORERS[fields.type].main_value is None:
        hint = "add `metrics`, such as `- {type: mean, field: …}`"
        problems.add("E108", f"a `{fields.type}` scorer needs `metrics`", entry.place, hint)
    elif fields.metrics == [] and defaults and fields.purpose == "score":
        message = f"scorer `{key}` has no metrics: the run will have no number of it"
        problems.notice(message, listed.place, "leave `metrics` out to get the usual ones")
    candidates = [(fields.key, metric.type, part.place) for part, fields, metric in read]
    names = assign_keys(candidates, problems, what="metric", within=f"in scorer `{key}`")
    return [
        (part, name, fields, metric)
        for (part, fields, metric), name in zip(read, names, strict=True)
    ]


def _check_templates(
    scorer: Scorer | None,
    entry: Node,
    problems: Problems,
) -> None:
    if scorer is None:
        return
    for name, error in compile_templates(scorer)[1]:
        is_misspelt = name not in entry.entries and (entry.place, name) in problems.misspelt
        is_unset = entry.field(name).is_null or getattr(scorer, name, None) is not None
        if is_unset and not is_misspelt:
            # Otherwise its value was refused, and reported.
            report_template(error, entry.at(*name.split(".")), problems)


def _dump(fields: Fields) -> dict[str, object]:
    return fields.model_dump(mode="json", exclude_none=True, fallback=str)


def _read_snippets(
    fields: Fields,
    node: Node,
    label: str,
    problems: Problems,
) -> list[Snippet]:
    """Return the snippets among the fields; one that cannot be run is reported."""
    snippets = []
    for name in type(fields).model_fields:
        source = getattr(fields, name)
        if name.endswith("_snippet") and isinstance(source, str):
            place = node.at(name).place
            snippet = Snippet(name.removesuffix("_snippet"), source, place, label)
            _check_snippet(snippet, node.at(name), problems)
            snippets.append(snippet)
    return snippets


def _check_snippet(
    snippet: Snippet,
    node: Node,
    problems: Problems,
) -> None:
    """Report a snippet that cannot be run, where it stops being Python."""
    error = check_snippet(snippet)
    if error is None:
        return
    where = node.place
    try:
        parse_syntax(snippet.source)
    except SyntaxError as mistake:
        where = node.place_of_line(mistake.lineno, mistake.offset)
    except (ValueError, RecursionError, MemoryError):
        pass
    problems.add(error.code, error.message, where, error.hint)


def _list_default_metrics(
    scorer: Scorer | None, trials: Trials | None
) -> Sequence[Mapping[str, object]]:
    """Return the mean of the main value, or of each of its aggregates, named after them."""
    defaults: Sequence[Mapping[str, object]] | None = getattr(scorer, "default_metrics", None)
    if defaults is not None:
        return defaults
    if scorer is None or scorer.main_value is None:
        return []
    value = scorer.main_value
    title = scorer.default_metric_name
    if trials is None:
        return [{"type": "mean", "field": value, "name": title}]
    means = []
    for aggregator in trials.aggregators_of(value):
        label = aggregator.label
        name = title if label == "mean" else f"{title} {label}"
        means.append({"type": "mean", "field": f"{value}.{label}", "name": name})
    return means


def _check_metric_fields(
    metric: Metric,
    scorer: type[Scorer],
    trials: Trials | None,
    entry: Node,
    problems: Problems,
) -> None:
    """Report a metric of something that the scorer does not produce, or not as a number."""
    names = _list_names(scorer, trials)
    if names is None:
        return
    for name in metric.fields():
        where = entry.place
        for scalar in entry.entries.values():
            if scalar.value == name:
                where = scalar.place
        if name in getattr(scorer, "text_names", ()) and getattr(metric, "reads_numbers", False):
            message = f"`{metric.type}` needs numbers, and `{name}` is text"
            hint = "`frequency` and the classification metrics read text"
            problems.add("E115", message, where, hint)
        if name not in names and "<<" not in name:
            hint = f"fields: {listing(names)}"
            near = suggest(name, names)
            if near:
                hint = f"{near} {hint}"
            message = f"metric field `{name}` is not produced by `{scorer.type}`"
            problems.add("E115", message, where, hint)
