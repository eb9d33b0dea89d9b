"""A task's tree becomes a Task with nothing left to look up.

Every mistake on the way is reported.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pkgutil import resolve_name
from typing import Any, NamedTuple

from answerkey import metrics, solvers
from answerkey.errors import Place, SpecError, listing, suggest
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
from answerkey.scorers import SCORERS, Action, Scorer, asks_model, compile_templates, find_role
from answerkey.solvers import SOLVERS, ChoiceOrder, Solver
from answerkey.spec import shapes, validation
from answerkey.spec.config import Config
from answerkey.spec.nodes import Node, Problems, from_plain, walk_scalars
from answerkey.spec.shapes import carry_over
from answerkey.spec.sources import build_filter
from answerkey.spec.validation import Fields, Part, assign_keys, report_template, validate_node
from answerkey.templates import ACTION_NAMES, find_whole
from answerkey.text import parse_syntax
from answerkey.types import Known, Purpose, Samples

SCORER = Part("scorer", SCORERS, shapes.ScorerCommon, "Scorer")
METRIC = Part("metric", METRICS, shapes.MetricCommon, "Metric")
SOLVER = Part("solver", SOLVERS)
#: The metrics that `choice_order` brings along; a task without it loads neither.
ORDER_METRICS = {
    "choice_order": "answerkey.robustness.choice_order:ChoiceOrderMetric",
    "pride": "answerkey.robustness.choice_order:PrideMetric",
}
#: What a reader sees but no number depends on.
_WORDS_ONLY = frozenset({"display_name", "description", "long_description"})
_NAMES = ("key", "long_description", "tags")
_UNBIASED_NOTICE = (
    "`pass@k` and `pass^k` are the unbiased estimators here: 1 - C(n-c, k)/C(n, k) and "
    "C(c, k)/C(n, k) of c"
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

    @property
    def model_path(self) -> tuple[str | int, ...]:
        """Where in a task the scorer names the model that it asks."""
        field = (
            ("extraction", "fallback") if find_role(self.scorer) == "fallback" else ("model_key",)
        )
        return ("definition", "scorers", self.index, *field)


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
        """The scorer whose counts stand for the task: the first with purpose `score`, else the
        first.
        """
        return next((step for step in self.scoring if step.purpose == "score"), self.scoring[0])

    @property
    def num_trials(self) -> int:
        """How many completions each sample gets."""
        return self.trials.num_trials if self.trials else 1

    @property
    def design_columns(self) -> tuple[str, ...]:
        """The dataset columns by which metrics group or cluster samples, each once."""
        designs = [one.design for step in self.scoring for one in step.metrics]
        return tuple(dict.fromkeys(name for design in designs for name in design.columns))

    def sample_facts(self, samples: Samples) -> Known | None:
        """Return what the first scorer that knows anything knows: choices, truths, option texts."""
        known = next(
            (one for step in self.scoring if (one := step.scorer.sample_facts(samples))), None
        )
        if known is None or self.choice_order is None or any(known.options):
            return known
        return replace(
            known, options=solvers.option_texts(self.choice_order, samples, known.choices)
        )

    def place(self, *path: str | int) -> Place:
        """Return where a part of the task stands.

        `("config_spec", name)` is where that value was given.
        """
        if len(path) > 1 and path[0] == "config_spec" and path[1] in self.config_places:
            return self.config_places[str(path[1])]
        return self.places.at(*path).place


class ForeseenMetric(NamedTuple):
    """A metric of a task, and what its values will be called."""

    step: ScoringStep
    metric: KeyedMetric
    names: ValueNames


def find_metrics(task: Task, name: str | None = None) -> list[ForeseenMetric]:
    """Return the metrics of a task, or those that may have a value of a name: alone, or behind
    their keys.
    """
    found = []
    for step in task.scoring:
        for metric in step.metrics:
            names = foresee_names(metric.metric)
            openings = ("", f"{metric.key}_", f"{step.key}_{metric.key}_")
            rest = [
                name[len(one) :] for one in openings if name is not None and name.startswith(one)
            ]
            if name is None or any(map(names.allow, rest)):
                found.append(ForeseenMetric(step, metric, names))
    return found


def find_compared(task: Task, name: str) -> tuple[str, str] | None:
    """Return the scorer and the value whose mean a metric is.

    None when it is no plain mean of a value. With trials, the mean of their mean is one.
    """
    for step, one, _ in find_metrics(task, name):
        if isinstance(one.metric, Mean):
            value, _, label = one.metric.field.partition(".")
            usual = task.trials.aggregators_of(value)[0].label if task.trials else ""
            if (label or usual) == ("mean" if task.trials else ""):
                return step.key, value
    return None


def hash_definition(definition: object) -> str:
    """Return the SHA-256 of a resolved definition.

    Names and descriptions for readers do not count.
    """
    text = json.dumps(
        _strip_words(definition), sort_keys=True, ensure_ascii=False, separators=(",", ":")
    )
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _strip_words(value: object) -> object:
    if isinstance(value, Mapping):
        kept = (
            (key, one) for key, one in value.items() if key not in _WORDS_ONLY and one is not None
        )
        return {key: _strip_words(one) for key, one in kept}
    return [_strip_words(one) for one in value] if isinstance(value, list | tuple) else value


def build_task(node: Node, config: Config, problems: Problems) -> Task | None:
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
        spelled = Node({"key": choice}, choice.place, keys={"key": choice.place})
        task = task.having("definition", definition.having("dataset", spelled))
    return _build(config.fill(task, problems), config, problems, config.of_type("dataset_column"))


def task_from_source(source: Mapping[str, Any]) -> Task:
    """Return the task that `Task.source` describes; raises SpecError when it is none."""
    problems = Problems()
    place = Place(file=str(source["file"]) if source.get("file") else None)
    beside = {"config", "dataset_columns", "file"}
    root = from_plain({key: value for key, value in source.items() if key not in beside}, place)
    columns = source.get("dataset_columns") or {}
    task = _build(root, Config(values=source.get("config") or {}), problems, columns)
    if problems.errors:
        raise problems.errors[0]
    if task is None:
        raise SpecError("E108", "the stored task cannot be read", where=place)
    return task


def _build(
    node: Node, config: Config, problems: Problems, columns: Mapping[str, str]
) -> Task | None:
    fields = validate_node(shapes.TaskFields, node, problems, name="the task")
    if (
        fields is None
    ):  # names that stand in for missing or wrong ones, so that the rest can still be checked
        key = re.sub(r"[^a-zA-Z0-9_-]+", "-", node.key or "task")[:250] or "task"
        fields = shapes.TaskFields(key=key, definition=None)
    if "definition" not in node.entries:
        return None
    written = carry_over(node.entries["definition"], "definition", problems)
    if choice := written.get("dataset"):
        written = written.having("dataset", carry_over(choice, "dataset choice", problems))
    own = validate_node(shapes.Definition, written, problems, name="`definition`")
    if not written.is_map:
        return None
    stated = {name for name, one in written.entries.items() if not one.is_null}
    trials = build_trials(written.entries["trials"], problems) if "trials" in stated else None
    steps, sources, snippets = _build_scoring(
        written.field("scorers"), trials, build_design(own), problems
    )
    if trials is not None:
        _check_score_names(trials, steps, written.entries["trials"], problems)
    solver, solver_fields = None, None
    if "solver" in stated and all(read := SOLVER.read(written.entries["solver"], problems)):
        solver_fields, solver = read
        for name, error in solver.compile_templates()[1]:
            path = (int(step) if step.isdigit() else step for step in name.split("."))
            report_template(error, written.at("solver", *path), problems)
    actions = _build_actions(written.entries["actions"], problems) if "actions" in stated else []
    order, order_fields = None, None
    if "choice_order" in stated:
        model, order_node = validation.fields_of(ChoiceOrder), written.entries["choice_order"]
        order_fields = validate_node(model, order_node, problems, name="`choice_order`")
        order = (
            None
            if order_fields is None
            else validation.try_build(order_fields, order_node, problems)
        )
    if order is not None:
        following = [step for step in steps if getattr(step.scorer, "follows_order", False)]
        for step in (step for step in steps if step not in following):
            reads = (
                f"scorer `{step.key}` (`{step.scorer.type}`) reads the truth as it stands "
                "in the row"
            )
            hint = "with `choice_order` use `string_equals_mcqa`, whose truth moves with its option"
            place = written.at("scorers", step.index).place
            problems.add("E108", f"{reads}, and `choice_order` moves the options", place, hint)
        if solver is not None and solver.reads_column and order.orders != "original":
            reads = f"`{solver.type}` reads what was said to the options as they stand"
            hint = (
                "write `orders: original`, or bring a file with `option_order` by "
                "`--completions FILE`"
            )
            place = written.at("choice_order", "orders").place
            problems.add("E108", f"{reads}, and `orders` is `{order.orders}`", place, hint)
        main = next((step for step in steps if step.purpose == "score"), None)
        added: list[tuple[ScoringStep, str, Metric]] = []
        if main in following and main is not None:
            added.append(
                (main, "choice_order", resolve_name(ORDER_METRICS["choice_order"])(order.orders))
            )
        if order.pride is not None:
            reading = [step for step in steps if getattr(step.scorer, "reads_logprobs", False)]
            if reading:
                metric = resolve_name(ORDER_METRICS["pride"])(order.pride.share, order.pride.seed)
                added.append((reading[0], "pride", metric))
            else:
                message = (
                    "`pride` takes the prior out of probabilities, and no scorer of the "
                    "task reads any"
                )
                hint = "add the scorer `choice_probabilities`, or leave `pride` out"
                problems.add("E108", message, written.at("choice_order", "pride").place, hint)
        ordered = []
        for step in steps:
            kept = list(step.metrics)
            design = replace(kept[0].design if kept else Design(), group_by=())
            for name, metric in ((name, metric) for owner, name, metric in added if owner is step):
                kept.append(
                    KeyedMetric(
                        validation.number_key(name, {one.key for one in kept}), metric, design
                    )
                )
            ordered.append(replace(step, metrics=tuple(kept)))
        steps = ordered
    ranks = solver is not None and solver.ranks_continuations
    for step in steps if ranks else ():
        if not getattr(step.scorer, "reads_logprobs", False):
            reads = f"which scorer `{step.key}` (`{step.scorer.type}`) reads"
            message = (
                f"`{solvers.ChoiceRankingSolver.type}` gets log-probabilities and no text, {reads}"
            )
            place = written.at("scorers", step.index).place
            problems.add("E108", message, place, "use the scorer `choice_probabilities`")
    if actions and len(steps) == len(written.at("scorers").items):
        _check_actions(written, steps, [action for action, _ in actions], problems)
    if own is None or not steps:
        return None
    # The task as plain values, with every key given and every old name gone.
    rules = [
        {"key": one.key, "action": one.action, "filter": condition} for one, condition in actions
    ]
    definition: dict[str, object] = {
        "type": "benchmark_task",
        "dataset": own.dataset and {"key": own.dataset.key},
        "solver": solver_fields
        and solver_fields.model_dump(mode="json", exclude_none=True, fallback=str),
        "scorers": sources,
        "trials": trials and asdict(trials),
        "choice_order": order and order_fields and order_fields.model_dump(mode="json"),
        **own.model_dump(include=set(shapes.DesignFields.model_fields)),
        "actions": rules or None,
    }
    definition = {name: one for name, one in definition.items() if one is not None}
    source = {
        **fields.model_dump(mode="json", exclude={"config_spec", "definition"}, exclude_none=True),
        "definition": definition,
        "config": dict(config.values),
        "dataset_columns": dict(columns),
        "file": node.place.file,
    }
    source = json.loads(json.dumps(source, ensure_ascii=False, default=str))
    # Prompts of our own decide numbers like those of the user.
    asking = [step.scorer for step in steps if asks_model(step.scorer)]
    prompts = [one for scorer in asking if (one := getattr(scorer, "model_prompt", None))]
    return Task(
        **{name: getattr(fields, name) for name in _NAMES},
        display_name=fields.display_name or fields.key,
        description=fields.description or "",
        config=config.values,
        dataset_columns=columns,
        dataset_key=own.dataset.key if own.dataset else None,
        solver=solver,
        scoring=tuple(steps),
        actions=tuple(action for action, _ in actions),
        trials=trials,
        choice_order=order,
        snippets=tuple(snippets),
        fingerprint=hash_definition(
            [source["definition"], *prompts] if prompts else source["definition"]
        ),
        source=source,
        file=node.place.file,
        places=node,
        config_places=config.places,
    )


def _build_actions(node: Node, problems: Problems) -> list[tuple[Action, dict[str, Any]]]:
    """Return the actions of a task, each with its filter as plain values."""
    built, wanted = [], []
    for number, entry in enumerate(node.items, start=1):
        fields = validate_node(shapes.ActionFields, entry, problems, name=f"action {number}")
        part = entry.get("filter")
        found = build_filter(part, problems, names=ACTION_NAMES) if part is not None else None
        if fields is not None and found is not None:
            action = Action(key=fields.key, filter=found[0], action=fields.action)
            built.append(
                (action, found[1].model_dump(mode="json", exclude_unset=True, fallback=str))
            )
            wanted.append((fields.key, fields.key, entry.place))
    assign_keys(wanted, problems, what="action", within="in the task")
    return built


def _check_actions(
    definition: Node, steps: Sequence[ScoringStep], actions: Sequence[Action], problems: Problems
) -> None:
    """Report filters of actions that read a scorer, or a value of one, that there is not (E113)."""
    known = {step.key: step.scorer for step in steps}
    for action in actions:
        try:
            paths = sorted(action.filter.template.paths_from("scores"), key=str)
        except SpecError:
            continue
        own = (entry for entry in definition.at("actions").items if entry.key == action.key)
        where = next((entry.at("filter", "expression") for entry in own), definition).place
        for key, *rest in (tuple(map(str, path)) for path in paths if path):
            if key not in known:
                message = f"action `{action.key}`: no scorer has the key `{key}`"
                problems.add(
                    "E113", message, where, suggest(key, known) or f"scorers: {listing(known)}"
                )
                continue
            values, metadata = known[key].value_names, known[key].metadata_names
            if not rest or values is None or metadata is None:  # only the scores can tell
                continue
            names = [*values, *metadata]
            if rest[0].split(".")[0] not in names:
                message = f"action `{action.key}`: scorer `{key}` has no value `{rest[0]}`"
                problems.add(
                    "E113", message, where, suggest(rest[0], names) or f"values: {listing(names)}"
                )


def build_design(fields: shapes.DesignFields | None, base: Design | None = None) -> Design:
    """Return the design (`group_by`, `cluster_by`) of a task or of a metric.

    What is left out is `base`'s.
    """
    stated: dict[str, Any] = {}
    if fields is not None:
        columns = [fields.group_by] if isinstance(fields.group_by, str) else fields.group_by
        stated["group_by"] = None if columns is None else tuple(dict.fromkeys(columns))
        stated["cluster_by"] = fields.cluster_by
        stated["is_corrected"] = fields.cluster_correction
    return replace(
        base or Design(), **{name: one for name, one in stated.items() if one is not None}
    )


def override_trials(task: Node, *layers: Node | None) -> Node:
    """Return a task with what the run says about its trials; a later layer wins, key by key."""
    definition = task.field("definition")
    trials = definition.field("trials")
    stated = [layer for layer in layers if layer is not None and not layer.is_null]
    if not definition.is_map or not stated:
        return task
    for layer in stated:
        if trials.is_map and layer.is_map:
            trials = Node(
                trials.entries | layer.entries, layer.place, keys=trials.keys | layer.keys
            )
        else:
            trials = layer
    return task.having("definition", definition.having("trials", trials))


def build_trials(node: Node, problems: Problems) -> Trials | None:
    """Return the trials of a definition; None when `num_trials` is wrong."""
    fields = validate_node(shapes.TrialsFields, node, problems, name="`trials`")
    if fields is None:
        return None
    chosen: dict[tuple[str, str], metrics.ScoreAggregator] = {}
    for index, one in enumerate(fields.score_aggregators or ()):
        where = node.at("score_aggregators", index).place
        named = {one.score_name, one.aggregator.score_name} - {None}
        if len(named) != 1:
            what = (
                "`score_name` and that of the `aggregator` differ"
                if named
                else "`score_name` is missing"
            )
            problems.add("E108", f"{what} in `score_aggregators` of `trials`", where)
        name, k, wrong = one.aggregator.function, one.aggregator.k, None
        if name not in metrics.WITH_K and k is not None:
            wrong = (f"the aggregator `{name}` has no `k`", "leave `k` out")
        elif name in metrics.WITH_K and k is None:
            wrong = (f"the aggregator `{name}` needs `k`", f"write `{{function: {name}, k: 1}}`")
        elif name in metrics.trials.DRAWING and k is not None and k > fields.num_trials:
            message = f"`{name}` with `k` {k} needs {k} trials, and there are {fields.num_trials}"
            wrong = (message, f"give at least {k} trials, or a smaller `k`")
        if wrong is not None:
            problems.add("E108", wrong[0], where, wrong[1])
        if wrong is not None or len(named) != 1:
            continue
        aggregator = metrics.Aggregator(name, k)
        label = (str(named.pop()), aggregator.label)
        if label in chosen:
            problems.add("E108", f"the aggregate `{'.'.join(label)}` is listed twice", where)
        chosen.setdefault(label, metrics.ScoreAggregator(label[0], aggregator))
        if name in metrics.UNBIASED:
            problems.notice(_UNBIASED_NOTICE, where, _PLUGIN_HINT)
    return Trials(fields.num_trials, tuple(chosen.values()))


def _check_score_names(
    trials: Trials, steps: Sequence[ScoringStep], node: Node, problems: Problems
) -> None:
    """Report aggregators of something that no scorer has as a value."""
    scorers = [step.scorer for step in steps]
    if not steps or any(one.value_names is None for one in scorers):
        return
    names = list(dict.fromkeys(name for one in scorers for name in one.value_names or ()))
    metadata = {name for one in scorers for name in one.metadata_names or ()}
    voting = [one for one in scorers if {*metrics.trials.VOTES} & {*(one.metadata_names or ())}]
    voted = {name for one in voting for name in one.value_names or ()}
    for name, aggregator in ((one.score_name, one.aggregator) for one in trials.score_aggregators):
        message = f"`score_name` `{name}` is not a value of a scorer of the task"
        hint = suggest(name, names) or f"values: {listing(names)}"
        if name in metadata and name not in names:
            hint = f"metadata has no aggregate: its metrics count the trials; {hint}"
        elif name in names:
            if name in voted or aggregator.function != "maj@k":
                continue
            message = f"`maj@k` of `{name}`: its scorer does not say which answer a trial gives"
            hint = "a majority vote needs letters or texts: `string_equals_mcqa`, `string_equals`"
        written = walk_scalars(node.at("score_aggregators"))
        places = (
            one.place for path, one in written if path[-1:] == ("score_name",) and one.value == name
        )
        problems.add("E115", message, next(places, node.place), hint)


def _build_scoring(
    node: Node, trials: Trials | None, design: Design, problems: Problems
) -> tuple[list[ScoringStep], list[dict[str, object]], list[Snippet]]:
    """Return the steps of a list of scorers, their fields as plain values, and their snippets.

    A scorer with mistakes is left out, the others are built. `design` is that of the task, for
    metrics that have none of their own. A scorer without `metrics` has its own, else the mean of
    its main value.
    """
    entries: list[tuple[int, Node, Any, Scorer | None]] = []
    for index, written in enumerate(node.items):
        entry = carry_over(written, "scorer", problems)
        fields, scorer = SCORER.read(entry, problems, number=index + 1)
        if fields is not None:
            entries.append((index, entry, fields, scorer))
        elif (
            entry.at("type").text in SCORERS
        ):  # mistakes in the metrics of one that cannot be built itself
            for number, part in enumerate(entry.at("metrics").items, start=1):
                METRIC.read(part, problems, number=number)
    wanted = [(fields.key, fields.type, entry.place) for _, entry, fields, _ in entries]
    keys = assign_keys(wanted, problems, what="scorer", within="in the task")
    steps, sources, snippets = [], [], []
    for (index, entry, fields, scorer), key in zip(entries, keys, strict=True):
        own = _find_snippets(fields, entry, key, problems)
        kind, defaults = SCORERS[fields.type], _list_default_metrics(scorer, trials)
        is_stated = fields.metrics is not None
        listed = entry.at("metrics").items if is_stated else ()
        if not listed and not defaults and kind.main_value is None:
            hint = "add `metrics`, such as `- {type: mean, field: …}`"
            problems.add("E108", f"a `{fields.type}` scorer needs `metrics`", entry.place, hint)
        elif is_stated and not listed and defaults and fields.purpose == "score":
            message = f"scorer `{key}` has no metrics: the run will have no number of it"
            problems.notice(
                message, entry.at("metrics").place, "leave `metrics` out to get the usual ones"
            )
        found: list[tuple[Node, Any, Metric]] = []
        for number, part in enumerate(listed, start=1):
            one, metric = METRIC.read(part, problems, number=number)
            if metric is not None:
                found.append((part, one, metric))
        if not is_stated:
            usual = [METRIC.model(str(one["type"])).model_validate(one) for one in defaults]
            found = [(entry, one, validation.build(one)) for one in usual]
        wanted = [(one.key, metric.type, part.place) for part, one, metric in found]
        names = assign_keys(wanted, problems, what="metric", within=f"in scorer `{key}`")
        keyed, described = [], []
        for (part, one, metric), name in zip(found, names, strict=True):
            if is_stated:
                _check_metric_fields(metric, kind, trials, part, problems)
                own += _find_snippets(one, part, f"{key}.{name}", problems)
            scale = metrics.find_scale(metric, getattr(scorer, "scales", {}))
            keyed.append(KeyedMetric(name, metric, build_design(one, design), scale))
            described.append({**_dump(one), "key": name})
        if scorer is None:
            continue
        for name, error in compile_templates(scorer)[1]:
            stated = entry.get(name)
            is_told = stated is None and (entry.place, name) in problems.misspelt
            if not is_told and (
                stated is None or stated.is_null or getattr(scorer, name, None) is not None
            ):
                # Otherwise it is written, and what is wrong with it was reported.
                report_template(error, entry.at(*name.split(".")), problems)
        steps.append(
            ScoringStep(key, scorer, tuple(keyed), fields.purpose, fields.display_name, index)
        )
        sources.append({**_dump(fields), "key": key, "metrics": described})
        snippets.extend(own)
    return steps, sources, snippets


def _dump(fields: Fields) -> dict[str, object]:
    plain = fields.model_dump(mode="json", fallback=str)
    return {name: value for name, value in plain.items() if value is not None}


def _find_snippets(fields: Fields, node: Node, label: str, problems: Problems) -> list[Snippet]:
    names = [name for name in type(fields).model_fields if name.endswith("_snippet")]
    stated = {name: source for name in names if isinstance(source := getattr(fields, name), str)}
    return [
        _check_snippet(name, source, node.at(name), label, problems)
        for name, source in stated.items()
    ]


def _check_snippet(name: str, source: str, node: Node, label: str, problems: Problems) -> Snippet:
    """Return a snippet; one that cannot be run is reported where it stops being Python."""
    snippet = Snippet(name.removesuffix("_snippet"), source, node.place, label)
    error, where = check_snippet(snippet), node.place
    if error is None:
        return snippet
    try:
        parse_syntax(source)
    except SyntaxError as mistake:
        where = node.place_of_line(mistake.lineno, mistake.offset)
    except (ValueError, RecursionError, MemoryError):
        pass
    problems.add(error.code, error.message, where, error.hint)
    return snippet


def _list_default_metrics(
    scorer: Scorer | None, trials: Trials | None
) -> Sequence[Mapping[str, object]]:
    """Return the mean of the main value, or of each of its aggregates, which then say what they
    are.
    """
    own: Sequence[Mapping[str, object]] | None = getattr(scorer, "default_metrics", None)
    if own is not None:
        return own
    if scorer is None or scorer.main_value is None:
        return []
    value, name = scorer.main_value, scorer.default_metric_name
    if trials is None:
        return [{"type": "mean", "field": value, "name": name}]
    labels = [one.label for one in trials.aggregators_of(value)]
    named = [(label, name if label == "mean" else f"{name} {label}") for label in labels]
    return [{"type": "mean", "field": f"{value}.{label}", "name": title} for label, title in named]


def _check_metric_fields(
    metric: Metric, scorer: type[Scorer], trials: Trials | None, entry: Node, problems: Problems
) -> None:
    if scorer.value_names is None or scorer.metadata_names is None:
        return
    values = list(scorer.value_names)
    if trials is not None:
        values = [label for name in values for label in trials.names_of(name)]
    known = [*values, *scorer.metadata_names]
    for name in metric.fields():
        written = (
            node for path, node in walk_scalars(entry) if len(path) == 1 and node.value == name
        )
        where = next(written, entry).place
        if name in getattr(scorer, "text_names", ()) and getattr(metric, "reads_numbers", False):
            message = f"`{metric.type}` needs numbers, and `{name}` is text"
            problems.add(
                "E115", message, where, "`frequency` and the classification metrics read text"
            )
        if name not in known and "<<" not in name:
            hint = " ".join(filter(None, [suggest(name, known), f"fields: {listing(known)}"]))
            problems.add(
                "E115", f"metric field `{name}` is not produced by `{scorer.type}`", where, hint
            )
