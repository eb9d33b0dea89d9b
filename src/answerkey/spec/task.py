"""A task's tree becomes a Task with nothing left to look up; every mistake on the way is reported."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from answerkey.errors import Place, SpecError, listing, suggest
from answerkey.metrics import (
    METRICS,
    UNBIASED,
    WITH_K,
    Aggregator,
    ChoiceOrderMetric,
    Design,
    KeyedMetric,
    Metric,
    PrideMetric,
    ScoreAggregator,
    Trials,
    find_scale,
)
from answerkey.sandbox import Snippet, check_snippet
from answerkey.scorers import SCORERS, Action, Scorer, compile_templates
from answerkey.solvers import (
    SOLVERS,
    ChoiceOrder,
    ChoiceRankingSolver,
    PassThroughSolver,
    Solver,
    tell_options,
)
from answerkey.spec.config import Config, Given, read_parameters, resolve_config
from answerkey.spec.nodes import (
    ListNode,
    MapNode,
    Node,
    Places,
    Problems,
    ScalarNode,
    from_plain,
    walk_scalars,
)
from answerkey.spec.shapes import (
    ActionFields,
    AggregatorFields,
    Definition,
    DesignFields,
    MetricCommon,
    ScorerCommon,
    TaskFields,
    TrialsFields,
    carry_over,
)
from answerkey.spec.sources import build_filter
from answerkey.spec.validation import (
    Fields,
    Part,
    assign_keys,
    build,
    fields_of,
    number_key,
    report_template,
    try_build,
    validate_node,
)
from answerkey.templates import ACTION_NAMES, Template, find_whole
from answerkey.types import Known, Purpose, Samples

SCORER = Part("scorer", SCORERS, ScorerCommon, "Scorer")
METRIC = Part("metric", METRICS, MetricCommon, "Metric")
SOLVER = Part("solver", SOLVERS)
#: What a reader sees but no number depends on.
_WORDS_ONLY = frozenset({"display_name", "description", "long_description"})
_UNBIASED_NOTICE = (
    "`pass@k` and `pass^k` are the unbiased estimators here: 1 - C(n-c, k)/C(n, k) and C(c, k)/C(n, k) of c"
    " successes in n trials"
)
_PLUGIN_HINT = "for the plug-in forms 1 - (1-p)^k and p^k write `pass@k_plugin` and `pass^k_plugin`"


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
        known = next((one for step in self.scoring if (one := step.scorer.know(samples))), None)
        if known is None or self.choice_order is None or any(known.options):
            return known
        return replace(known, options=tell_options(self.choice_order, samples, known.choices))

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
        kept = ((key, one) for key, one in value.items() if key not in _WORDS_ONLY and one is not None)
        return {key: _strip_words(one) for key, one in kept}
    return [_strip_words(one) for one in value] if isinstance(value, list | tuple) else value


def build_task(
    node: Node, given: Mapping[str, Given], problems: Problems, *, needs_all: bool = True
) -> Task | None:
    """Return the task with config values filled in; None when it cannot be built at all.

    Without `needs_all`, a config value that is not given is no mistake: the task is only looked at.
    """
    if not isinstance(node, MapNode):
        if not node.is_broken:
            problems.add("E108", "a task must be a mapping", node.place, "it begins with `key: …`")
        return None
    parameters = read_parameters(node.get("config_spec"), problems)
    config = resolve_config(parameters, given, problems, place=node.place, needs_all=needs_all)
    task: Any = carry_over(node.without("config_spec"), "task", problems)
    definition, choice = task.get("definition"), task.at("definition").get("dataset")
    if isinstance(definition, MapNode) and choice is not None and choice.text and find_whole(choice.text):
        # `dataset: << config.x >>` is short for `dataset: {key: << config.x >>}`.
        spelled = MapNode({"key": choice}, choice.place, {"key": choice.place})
        task = task.having("definition", definition.having("dataset", spelled))
    return _build(config.fill(task, problems), config, problems, config.of_type("dataset_column"))


def task_from_source(source: Mapping[str, Any]) -> Task:
    """Return the task that `Task.source` describes; raises SpecError when it is none."""
    problems = Problems()
    place = Place(file=str(source["file"]) if source.get("file") else None)
    beside = {"config", "dataset_columns", "file"}
    root: Any = from_plain({key: value for key, value in source.items() if key not in beside}, place)
    columns = source.get("dataset_columns") or {}
    task = _build(root, Config(values=source.get("config") or {}), problems, columns)
    if problems.errors:
        raise problems.errors[0]
    if task is None:
        raise SpecError("E108", "the stored task cannot be read", where=place)
    return task


def _build(node: MapNode, config: Config, problems: Problems, columns: Mapping[str, str]) -> Task | None:
    fields = validate_node(TaskFields, node, problems, name="the task")
    if fields is None:  # names that stand in for missing or wrong ones, so that the rest can still be checked
        key = re.sub(r"[^a-zA-Z0-9_-]+", "-", node.key or "task")[:250] or "task"
        fields = TaskFields(key=key, display_name=key, description="", definition=None)
    defined = _read_definition(node.entries["definition"], problems) if "definition" in node.entries else None
    if defined is None or not defined.steps:
        return None
    source = json.loads(
        json.dumps(
            {
                **fields.model_dump(mode="json", exclude={"config_spec", "definition"}, exclude_none=True),
                "definition": defined.describe(),
                "config": dict(config.values),
                "dataset_columns": dict(columns),
                "file": node.place.file,
            },
            ensure_ascii=False,
            default=str,
        )
    )
    return Task(
        key=fields.key,
        display_name=fields.display_name,
        description=fields.description,
        long_description=fields.long_description,
        tags=fields.tags,
        config=config.values,
        dataset_columns=columns,
        dataset_key=defined.fields.dataset.key if defined.fields.dataset else None,
        solver=defined.solver[0] if defined.solver else None,
        scoring=tuple(built.step for built in defined.steps),
        actions=tuple(action for action, _ in defined.actions),
        trials=defined.trials,
        choice_order=defined.choice_order[0] if defined.choice_order else None,
        snippets=tuple(one for built in defined.steps for one in built.snippets),
        fingerprint=hash_definition(source["definition"]),
        source=source,
        file=node.place.file,
        places=Places(node),
        config_places=config.places,
    )


@dataclass(frozen=True)
class BuiltStep:
    """A scoring step, its snippets, and its fields as plain values."""

    step: ScoringStep
    snippets: tuple[Snippet, ...]
    source: dict[str, object]


@dataclass(frozen=True)
class _Defined:
    """What a definition says: objects, and the fields they were made of."""

    fields: Definition
    solver: tuple[Solver, Fields] | None
    steps: list[BuiltStep]
    actions: list[tuple[Action, Fields]]
    trials: Trials | None
    choice_order: tuple[ChoiceOrder, Fields] | None

    def describe(self) -> dict[str, object]:
        """Return the definition as plain values, with every key given and every old name gone."""
        described: dict[str, object] = {"type": "benchmark_task"}
        if self.fields.dataset:
            described["dataset"] = {"key": self.fields.dataset.key}
        if self.solver is not None:
            described["solver"] = self.solver[1].model_dump(mode="json", exclude_none=True, fallback=str)
        described["scorers"] = [built.source for built in self.steps]
        if self.trials is not None:
            described["trials"] = asdict(self.trials)
        if self.choice_order is not None:
            described["choice_order"] = self.choice_order[1].model_dump(mode="json")
        described |= self.fields.model_dump(include=set(DesignFields.model_fields), exclude_none=True)
        if self.actions:
            described["actions"] = [
                {
                    "key": action.key,
                    "action": action.action,
                    "filter": one.model_dump(mode="json", exclude_unset=True, fallback=str),
                }
                for action, one in self.actions
            ]
        return described


def _read_definition(node: Node, problems: Problems) -> _Defined | None:
    node = carry_over(node, "definition", problems)
    if isinstance(node, MapNode) and (choice := node.get("dataset")) is not None:
        node = node.having("dataset", carry_over(choice, "dataset choice", problems))
    fields = validate_node(Definition, node, problems, name="`definition`")
    if not isinstance(node, MapNode):
        return None
    trials = build_trials(node.get("trials"), problems)
    steps = _build_scoring(node.get("scorers"), trials, build_design(fields), problems)
    _check_score_names(trials, steps, node.at("trials"), problems)
    solver = _build_solver(node.get("solver"), problems)
    actions = _build_actions(node.get("actions"), problems)
    order, choice_order = node.get("choice_order"), None
    if order is not None and not order.is_null:
        own = validate_node(fields_of(ChoiceOrder), order, problems, name="`choice_order`")
        built = try_build(own, order, problems) if own is not None and isinstance(order, MapNode) else None
        if built is not None and own is not None:
            choice_order = (built, own)
            steps = _order_steps(node, built, steps, solver[0] if solver else None, problems)
    for one in steps if solver and isinstance(solver[0], ChoiceRankingSolver) else ():
        if not getattr(one.step.scorer, "reads_logprobs", False):
            problems.add(
                "E108",
                f"`{ChoiceRankingSolver.type}` gets log-probabilities and no text, which scorer"
                f" `{one.step.key}` (`{one.step.scorer.type}`) reads",
                node.at("scorers", one.step.index).place,
                "use the scorer `choice_probabilities`",
            )
    if len(steps) == len(node.at("scorers").items):
        _check_actions(node, steps, [action for action, _ in actions], problems)
    return None if fields is None else _Defined(fields, solver, steps, actions, trials, choice_order)


def _build_solver(node: Node | None, problems: Problems) -> tuple[Solver, Fields] | None:
    read = None if node is None or node.is_null else SOLVER.read(node, problems)
    if node is None or read is None or read[1] is None:
        return None
    fields, solver = read
    for name, error in solver.compile_templates()[1]:
        path = (int(step) if step.isdigit() else step for step in name.split("."))
        report_template(error, node.at(*path), problems)
    return solver, fields


def _build_actions(node: Node | None, problems: Problems) -> list[tuple[Action, Fields]]:
    built, wanted = [], []
    for number, entry in enumerate(node.items if node else (), start=1):
        fields = validate_node(ActionFields, entry, problems, name=f"action {number}")
        part = entry.get("filter")
        found = build_filter(part, problems, names=ACTION_NAMES) if part is not None else None
        if fields is not None and found is not None:
            built.append((Action(key=fields.key, filter=found[0], action=fields.action), found[1]))
            wanted.append((fields.key, fields.key, entry.place))
    assign_keys(wanted, problems, what="action", within="in the task")
    return built


def _check_actions(
    definition: MapNode, steps: Sequence[BuiltStep], actions: Sequence[Action], problems: Problems
) -> None:
    """Report filters of actions that read a scorer, or a value of one, that there is not (E113)."""
    known = {built.step.key: built.step.scorer for built in steps}
    for action in actions:
        try:
            paths = sorted(action.filter.template.paths_from("scores"), key=str)
        except SpecError:
            continue
        listed = definition.at("actions").items
        own = next((entry for entry in listed if entry.key == action.key), None)
        where = definition.place if own is None else own.at("filter", "expression").place
        for key, *rest in (tuple(map(str, path)) for path in paths if path):
            if key not in known:
                message = f"action `{action.key}`: no scorer has the key `{key}`"
                problems.add("E113", message, where, suggest(key, known) or f"scorers: {listing(known)}")
                continue
            values, metadata = known[key].value_names, known[key].metadata_names
            if not rest or values is None or metadata is None:  # only the scores can tell
                continue
            names = [*values, *metadata]
            if rest[0].split(".")[0] not in names:
                message = f"action `{action.key}`: scorer `{key}` has no value `{rest[0]}`"
                problems.add("E113", message, where, suggest(rest[0], names) or f"values: {listing(names)}")


def build_design(fields: DesignFields | None, base: Design | None = None) -> Design:
    """Return the design (`group_by`, `cluster_by`) of a task or of a metric; what is left out is `base`'s."""
    usual = base or Design()
    if fields is None:
        return usual
    columns = [fields.group_by] if isinstance(fields.group_by, str) else fields.group_by
    correction, seed = fields.cluster_correction, fields.bootstrap_seed
    return Design(
        group_by=usual.group_by if columns is None else tuple(dict.fromkeys(columns)),
        cluster_by=usual.cluster_by if fields.cluster_by is None else fields.cluster_by,
        is_corrected=usual.is_corrected if correction is None else correction,
        seed=usual.seed if seed is None else seed,
    )


def override_trials(task: MapNode, *layers: Node | None) -> MapNode:
    """Return a task with what the run says about its trials; a later layer wins, key by key."""
    definition = task.get("definition")
    if not isinstance(definition, MapNode):
        return task
    found = definition.get("trials")
    for layer in layers:
        if layer is None or layer.is_null:
            continue
        if isinstance(found, MapNode) and isinstance(layer, MapNode):
            found = MapNode(found.entries | layer.entries, layer.place, found.keys | layer.keys)
        else:
            found = layer
    return task if found is None else task.having("definition", definition.having("trials", found))


def build_trials(node: Node | None, problems: Problems) -> Trials | None:
    """Return the trials of a definition; None when there are none, or `num_trials` is wrong."""
    if node is None or node.is_null:
        return None
    fields = validate_node(TrialsFields, node, problems, name="`trials`")
    if fields is None:
        return None
    chosen: dict[tuple[str, str], ScoreAggregator] = {}
    for index, one in enumerate(fields.score_aggregators or ()):
        where = node.at("score_aggregators", index).place
        named = {one.score_name, one.aggregator.score_name} - {None}
        if len(named) != 1:
            both = "`score_name` and that of the `aggregator` differ" if named else "`score_name` is missing"
            problems.add("E108", f"{both} in `score_aggregators` of `trials`", where)
        wrong = _check_k(one.aggregator, fields.num_trials)
        if wrong is not None:
            problems.add("E108", wrong[0], where, wrong[1])
        if wrong is not None or len(named) != 1:
            continue
        aggregator = Aggregator(one.aggregator.function, one.aggregator.k)
        name = (str(named.pop()), aggregator.label)
        if name in chosen:
            problems.add("E108", f"the aggregate `{'.'.join(name)}` is asked for twice", where)
        chosen.setdefault(name, ScoreAggregator(name[0], aggregator))
        if aggregator.function in UNBIASED:
            problems.notice(_UNBIASED_NOTICE, where, _PLUGIN_HINT)
    return Trials(fields.num_trials, tuple(chosen.values()))


def _check_k(one: AggregatorFields, num_trials: int) -> tuple[str, str] | None:
    """Return what is wrong with `k` of an aggregator, and what to do about it."""
    name, k = one.function, one.k
    if name not in WITH_K:
        return None if k is None else (f"the aggregator `{name}` has no `k`", "leave `k` out")
    if k is None:
        return f"the aggregator `{name}` needs `k`", f"write `{{function: {name}, k: 1}}`"
    if name in UNBIASED and k > num_trials:
        message = f"`{name}` with `k` {k} needs {k} trials, and there are {num_trials}"
        return message, f"give at least {k} trials, or a smaller `k`"
    return None


def _check_score_names(
    trials: Trials | None, steps: Sequence[BuiltStep], node: Node, problems: Problems
) -> None:
    """Report aggregators of something that no scorer has as a value."""
    scorers = [built.step.scorer for built in steps]
    if trials is None or not steps or any(one.value_names is None for one in scorers):
        return
    names = list(dict.fromkeys(name for one in scorers for name in one.value_names or ()))
    metadata = {name for one in scorers for name in one.metadata_names or ()}
    for one in trials.score_aggregators:
        if one.score_name in names:
            continue
        hint = suggest(one.score_name, names) or f"values: {listing(names)}"
        if one.score_name in metadata:
            hint = f"metadata has no aggregate: its metrics count the trials; {hint}"
        written = walk_scalars(node.at("score_aggregators"))
        where = (
            scalar.place
            for path, scalar in written
            if path[-1:] == ("score_name",) and str(scalar.value) == one.score_name
        )
        message = f"`score_name` `{one.score_name}` is not a value of a scorer of the task"
        problems.add("E115", message, next(where, node.place), hint)


@dataclass(frozen=True)
class _ReadScorer:
    """A scorer's entry as it is written; `scorer` is None when it could not be built."""

    node: MapNode
    index: int
    fields: Any
    scorer: Scorer | None

    @property
    def kind(self) -> type[Scorer]:
        """The scorer's class."""
        return SCORERS[self.fields.type]


def _build_scoring(
    node: Node | None, trials: Trials | None, design: Design, problems: Problems
) -> list[BuiltStep]:
    """Return the steps of a list of scorers; one with mistakes is left out, the others are built.

    `design` is that of the task, for metrics that have none of their own.
    """
    entries: list[_ReadScorer] = []
    for index, written in enumerate(node.items if node else ()):
        entry = carry_over(written, "scorer", problems)
        read = SCORER.read(entry, problems, number=index + 1)
        if read is not None and isinstance(entry, MapNode):
            entries.append(_ReadScorer(entry, index, *read))
        elif (
            entry.at("type").text in SCORERS
        ):  # mistakes in the metrics of a scorer that cannot be built itself
            for number, metric in enumerate(entry.at("metrics").items, start=1):
                METRIC.read(metric, problems, number=number)
    wanted = [(one.fields.key, one.fields.type, one.node.place) for one in entries]
    keys = assign_keys(wanted, problems, what="scorer", within="in the task")
    steps = []
    for one, key in zip(entries, keys, strict=True):
        snippets = _find_snippets(one.fields, one.node, key, problems)
        metrics, sources = _build_metrics(one, key, trials, design, snippets, problems)
        if one.scorer is None:
            continue
        for name, error in compile_templates(one.scorer)[1]:
            stated = one.node.get(name)
            if stated is None or stated.is_null or getattr(one.scorer, name, None) is not None:
                # Otherwise it is written, and what is wrong with it was reported.
                report_template(error, one.node.at(*name.split(".")), problems)
        step = ScoringStep(key, one.scorer, metrics, one.fields.purpose, one.fields.display_name, one.index)
        steps.append(BuiltStep(step, tuple(snippets), {**_dump(one.fields), "key": key, "metrics": sources}))
    return steps


def _dump(fields: Fields) -> dict[str, object]:
    plain = fields.model_dump(mode="json", fallback=str)
    return {name: value for name, value in plain.items() if value is not None}


def _find_snippets(fields: Fields, node: Node, label: str, problems: Problems) -> list[Snippet]:
    found = []
    for name in type(fields).model_fields:
        source = getattr(fields, name)
        if not name.endswith("_snippet") or not isinstance(source, str):
            continue
        written = node.at(name)
        snippet = Snippet(name.removesuffix("_snippet"), source, written.place, label)
        error = check_snippet(snippet)
        if error is not None:
            where = written.place
            try:
                ast.parse(source)
            except SyntaxError as mistake:  # where it stops being Python
                where = written.place_of_line(mistake.lineno, mistake.offset)
            except (ValueError, RecursionError, MemoryError):
                pass
            problems.add(error.code, error.message, where, error.hint)
        found.append(snippet)
    return found


def _build_metrics(
    one: _ReadScorer,
    key: str,
    trials: Trials | None,
    design: Design,
    snippets: list[Snippet],
    problems: Problems,
) -> tuple[tuple[KeyedMetric, ...], list[dict[str, object]]]:
    """Return the metrics of a scorer and their fields as plain values; snippets are added to `snippets`.

    A scorer without `metrics` has its own, else the mean of its main value.
    """
    listed, defaults = one.node.get("metrics"), _list_default_metrics(one.scorer, trials)
    is_stated = one.fields.metrics is not None and isinstance(listed, ListNode)
    entries = listed.items if listed is not None and is_stated else ()
    if not entries and not defaults and one.kind.main_value is None:
        hint = "add `metrics`, such as `- {type: mean, field: …}`"
        problems.add("E108", f"a `{one.fields.type}` scorer needs `metrics`", one.node.place, hint)
    elif listed is not None and is_stated and not entries and defaults and one.fields.purpose == "score":
        message = f"scorer `{key}` has no metrics: the run will have no number of it"
        problems.notice(message, listed.place, "leave `metrics` out to get the usual ones")
    found: list[tuple[Node, Any, Metric]] = []
    for number, entry in enumerate(entries, start=1):
        read = METRIC.read(entry, problems, number=number)
        if read is not None and read[1] is not None:
            found.append((entry, read[0], read[1]))
    if not is_stated:
        models = [METRIC.model(str(own["type"])).model_validate(own) for own in defaults]
        found = [(one.node, fields, build(fields)) for fields in models]
    wanted = [(fields.key, metric.type, entry.place) for entry, fields, metric in found]
    keys = assign_keys(wanted, problems, what="metric", within=f"in scorer `{key}`")
    keyed = []
    for (entry, fields, metric), name in zip(found, keys, strict=True):
        if is_stated:
            _check_metric_fields(metric, one, trials, entry, problems)
            snippets.extend(_find_snippets(fields, entry, f"{key}.{name}", problems))
        scale = find_scale(metric, getattr(one.scorer, "scales", {}))
        keyed.append(KeyedMetric(name, metric, build_design(fields, design), scale))
    return tuple(keyed), [{**_dump(own), "key": name} for (_, own, _), name in zip(found, keys, strict=True)]


def _list_default_metrics(scorer: Scorer | None, trials: Trials | None) -> Sequence[Mapping[str, object]]:
    """Return the mean of the main value, or of each of its aggregates, which then say what they are."""
    if scorer is None or scorer.main_value is None:
        return []
    own: Sequence[Mapping[str, object]] | None = getattr(scorer, "default_metrics", None)
    if own is not None:
        return own
    value, name = scorer.main_value, scorer.default_metric_name
    if trials is None:
        return [{"type": "mean", "field": value, "name": name}]
    return [
        {"type": "mean", "field": f"{value}.{label}", "name": name if label == "mean" else f"{name} {label}"}
        for label in (one.label for one in trials.aggregators_of(value))
    ]


def _check_metric_fields(
    metric: Metric, one: _ReadScorer, trials: Trials | None, entry: Node, problems: Problems
) -> None:
    scorer = one.kind
    if scorer.value_names is None or scorer.metadata_names is None:
        return
    values = list(scorer.value_names)
    if trials is not None:
        values = [label for name in values for label in trials.names_of(name)]
    known = [*values, *scorer.metadata_names]
    for name in metric.fields():
        written = (node for path, node in walk_scalars(entry) if len(path) == 1 and node.value == name)
        where = next(written, entry).place
        if name in getattr(scorer, "text_names", ()) and getattr(metric, "reads_numbers", False):
            message = f"`{metric.type}` needs numbers, and `{name}` is text"
            problems.add("E115", message, where, "`frequency` and the classification metrics read text")
        if name not in known and "<<" not in name:
            hint = " ".join(filter(None, [suggest(name, known), f"fields: {listing(known)}"]))
            message = f"metric field `{name}` is not produced by `{one.fields.type}`"
            problems.add("E115", message, where, hint)


def _order_steps(
    definition: MapNode,
    order: ChoiceOrder,
    steps: Sequence[BuiltStep],
    solver: Solver | None,
    problems: Problems,
) -> list[BuiltStep]:
    """Return the steps with the metrics of `choice_order`; report what does not follow the order."""
    for one in steps:
        if not getattr(one.step.scorer, "follows_order", False):
            problems.add(
                "E108",
                f"scorer `{one.step.key}` (`{one.step.scorer.type}`) reads the truth as it stands in the row,"
                " and `choice_order` moves the options",
                definition.at("scorers", one.step.index).place,
                "with `choice_order` use `string_equals_mcqa`, whose truth moves with its option",
            )
    if isinstance(solver, PassThroughSolver) and order.orders != "original":
        problems.add(
            "E108",
            f"`{solver.type}` reads what was said to the options as they stand, and `orders` is"
            f" `{order.orders}`",
            definition.at("choice_order", "orders").place,
            "write `orders: original`, or bring a file with `option_order` by `--completions FILE`",
        )
    main = next((one for one in steps if one.step.purpose == "score"), None)
    follows = main is not None and getattr(main.step.scorer, "follows_order", False)
    added: list[tuple[BuiltStep | None, str, Metric]] = []
    if follows:
        added.append((main, "choice_order", ChoiceOrderMetric(order.orders)))
    if order.pride is not None:
        reads = (one for one in steps if getattr(one.step.scorer, "reads_logprobs", False))
        if (first := next(reads, None)) is None:
            problems.add(
                "E108",
                "`pride` takes the prior out of probabilities, and no scorer of the task reads any",
                definition.at("choice_order", "pride").place,
                "add the scorer `choice_probabilities`, or leave `pride` out",
            )
        added.append((first, "pride", PrideMetric(order.pride.share, order.pride.seed)))
    ordered = []
    for built in steps:
        step = built.step
        for name, metric in ((name, metric) for owner, name, metric in added if owner is built):
            design = replace(step.metrics[0].design if step.metrics else Design(), group_by=())
            key = number_key(name, {one.key for one in step.metrics})
            step = replace(step, metrics=(*step.metrics, KeyedMetric(key, metric, design)))
        ordered.append(replace(built, step=step))
    return ordered
