"""Run files, task files and ready-made tasks become a plan: tasks, each with its dataset and
model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib import import_module
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from answerkey.datasets.content import COMPRESSIONS, Content
from answerkey.datasets.dataset import Selection
from answerkey.datasets.formats import FORMATS
from answerkey.errors import (
    AnswerkeyError,
    DataError,
    Place,
    SpecError,
    is_url,
    listing,
    raise_all,
    suggest,
)
from answerkey.models.config import (
    Adapter,
    Caller,
    CustomConfig,
    Generation,
    ModelConfig,
    is_live,
    read_name,
)
from answerkey.models.names import complete_name
from answerkey.sandbox import Snippet, check_snippet
from answerkey.scorers import asks_model
from answerkey.solvers import ChatInput, GenericInput
from answerkey.spec import shapes
from answerkey.spec.config import (
    Config,
    DatasetParameter,
    Given,
    ModelParameter,
    given_by_caller,
    imply_parameters,
    read_given,
    read_parameters,
    refuse_config,
    resolve_config,
)
from answerkey.spec.nodes import Node, Problems, from_plain, resolve_path, sort_errors, with_key
from answerkey.spec.project import Loaded, Overrides, Project, find_file, load_environment
from answerkey.spec.ready_made import (
    ReadyMade,
    find_ready_made,
    list_ready_made,
    load_ready_made,
    open_raw_files,
    suggest_ready_made,
)
from answerkey.spec.shapes import SpecificationFields, carry_over
from answerkey.spec.sources import (
    DatasetSpec,
    build_dataset,
    is_data_file,
    is_remote,
    resolve_stated,
    show_file,
)
from answerkey.spec.task import Task, build_task, override_trials
from answerkey.spec.validation import (
    Fields,
    Key,
    assign_keys,
    extend_fields,
    fields_of,
    validate_node,
)

if TYPE_CHECKING:
    from answerkey.spec.models import ModelSpec

#: The variant that has the task's own prompt.
BASE = "base"
#: The feature that a field of a run file belongs to; it is above, and imported where the field
#: occurs.
FEATURES = {"policies": "answerkey.gates.policies"}
#: `tasks` is a key of task files too: the kinds of model they are for.
_RUN_ONLY = frozenset(shapes.RunFields.model_fields) - {"tasks"}
_DATASET_ONLY = frozenset({"source", "file_path"})
YAML_ENDINGS = frozenset({".yaml", ".yml", ".json"})
_SELECTION = frozenset(shapes.SelectionFields.model_fields)
_YAML = (".yaml", ".yml")
_LISTS = ("datasets", "models", "model_adapters", "tasks")
Judges = dict[str, str | ModelConfig]


@dataclass(frozen=True)
class Variant:
    """Which variant of which specification this is; both by their keys."""

    of: str
    key: str


@dataclass(frozen=True)
class Specification:
    """One task to run. `model` is for `open_model`; None when no model is called, or none is named.

    `model_key` is how the files call the model, also when recorded completions make calling it
    unnecessary; `completions` is the file that has them, and `model_name` the name of the model
    that wrote them. `judges` are the models of scorers that call one, by the scorer's key, for
    `open_model` as well. The whole specification is run `num_runs` times.
    """

    key: str
    task: Task
    dataset: DatasetSpec
    display_name: str | None = None
    model: str | ModelConfig | None = None
    model_key: str | None = None
    model_name: str | None = None
    selection: Selection = field(default_factory=Selection)
    examples: DatasetSpec | None = None
    num_runs: int = 1
    judges: Mapping[str, str | ModelConfig] = field(default_factory=dict)
    variant: Variant | None = None
    completions: Path | str | None = None

    @property
    def snippets(self) -> tuple[Snippet, ...]:
        """The user's code that would run: of the task, and of models that are snippets."""
        called = [
            one for one in (self.model, *self.judges.values()) if isinstance(one, ModelConfig)
        ]
        return (*self.task.snippets, *(snippet for one in called for snippet in one.snippets))


@dataclass(frozen=True)
class Plan:
    """All specifications of a run; `project` is the folder of the file given by the caller.

    `policies` are plain values, as `run.json` keeps them; `rule_places` say where each rule's
    definition stands, by the keys of its policy and its own. `matrix` has the specifications of
    each model, by its name; `specifications` are those of the first one then.
    """

    key: str
    specifications: tuple[Specification, ...]
    project: Path
    file: str
    display_name: str | None = None
    description: str | None = None
    cache_policy: str | None = None
    policies: tuple[Mapping[str, Any], ...] = ()
    rule_places: Mapping[tuple[str, str], Place] = field(default_factory=dict)
    matrix: Mapping[str, tuple[Specification, ...]] = field(default_factory=dict)

    def split(self) -> list[Plan]:
        """Return a plan for each model of the matrix; without one, this."""
        every = self.matrix.values() or [self.specifications]
        return [replace(self, specifications=one, matrix={}) for one in every]

    def find_baseline_errors(self, evaluation: str | None = None) -> list[AnswerkeyError]:
        """Return what is wrong with the runs that rules compare with; they are read here."""
        if not self.policies:
            return []
        find: Callable[..., list[AnswerkeyError]] = load_feature("policies").find_baseline_errors
        return find(self.policies, self.rule_places, evaluation or self.key)


@dataclass(frozen=True)
class PlannedTask:
    """A task of a run with its fields as an evaluation states them, before the task is built.

    `entry` is where it is stated, `selection` what the run says of rows beside it, `key` that of a
    variant.
    """

    fields: SpecificationFields
    node: Node
    given: Mapping[str, Given]
    entry: Node
    selection: Mapping[str, object] = field(default_factory=dict)
    completions: Path | str | None = None
    variant: Variant | None = None

    @classmethod
    def alone(cls, key: str, node: Node, given: Mapping[str, Given], **more: Any) -> PlannedTask:  # noqa: ANN401
        """Return a task that no evaluation asks for."""
        return cls(SpecificationFields.model_construct(task_key=key), node, given, node, **more)

    def asking(self, model: Node) -> PlannedTask:
        """Return the task as it is asked of a model of a matrix."""
        fields = self.fields.model_copy(update={"model_key": str(model.value)})
        return replace(self, fields=fields, entry=self.entry.having("model_key", model))

    @property
    def key(self) -> str | None:
        """The key that is stated."""
        if self.variant is None or self.variant.key == BASE:
            return self.fields.key
        return f"{self.variant.of}-{self.variant.key}"


@dataclass(frozen=True)
class PromptVariant:
    """Another prompt: what stands in place of the solver's `input_builder`."""

    key: str
    input_builder: ChatInput | GenericInput


@cache
def variant_model() -> type[Fields]:
    """Return the model of a variant's YAML."""
    return extend_fields(fields_of(PromptVariant), "VariantFields", Fields, key=(Key, ...))


@dataclass(frozen=True)
class ModelChoice:
    """A reference to a model: where it stands, whether the caller wrote it, and how it is to
    generate.
    """

    reference: str
    place: Place
    is_callers: bool = False
    generation: Generation = field(default_factory=Generation)


@dataclass
class Definitions(Project):
    """What a run file defines, by key, and what the caller adds to it.

    A broken one is not also undefined. `unread` names the lists (`datasets`, `tasks` …) that lack
    something which could not be read: nothing can be said to be missing there. `own_tasks` are
    those of the file, not ready-made ones. `open_files` reads files that the caller gives otherwise
    than as they are. `given_task` is built already.
    """

    datasets: dict[str, DatasetSpec] = field(default_factory=dict)
    broken_datasets: set[str] = field(default_factory=set)
    models: dict[str, ModelSpec] = field(default_factory=dict)
    broken_models: set[str] = field(default_factory=set)
    adapters: dict[str, Adapter] = field(default_factory=dict)
    tasks: dict[str, Node] = field(default_factory=dict)
    own_tasks: set[str] = field(default_factory=set)
    unread: set[str] = field(default_factory=set)
    given_dataset: DatasetSpec | None = None
    given_task: Task | None = None
    open_files: Callable[[str | Path], DatasetSpec | None] | None = None

    def define(self, node: Node) -> None:
        """Read datasets, models and adapters, and find the tasks.

        Keys that appear twice are reported.
        """
        problems = self.problems
        for name in _LISTS:
            entries = node.at(name).items
            lacking = [entry.entries.get("key", entry) for entry in entries]
            if node.is_broken or node.at(name).is_broken or any(one.is_broken for one in lacking):
                self.unread.add(name)
        for entry in map(with_key, node.at("datasets").items):
            dataset = build_dataset(entry, problems, base=self.folder)
            self._keep(dataset, entry, self.datasets, "dataset", self.broken_datasets)
        if node.at("models").items or node.at("model_adapters").items:
            from answerkey.spec.models import build_adapter, build_model
        for entry in node.at("models").items:
            self._keep(
                build_model(entry, problems), entry, self.models, "model", self.broken_models
            )
        for entry in node.at("model_adapters").items:
            self._keep(build_adapter(entry, problems), entry, self.adapters, "model adapter", set())
        for model in self.models.values() if "model_adapters" not in self.unread else ():
            self._check_adapter(model)
        for entry in map(with_key, node.at("tasks").items):
            if entry.key is None:
                self.look_at_task(entry)
                continue
            if entry.key in self.tasks:
                problems.add(
                    "E114", f"task key `{entry.key}` is used twice", entry.key_place("key")
                )
            self.tasks.setdefault(entry.key, entry)
            self.own_tasks.add(entry.key)

    def look_at_task(self, node: Node) -> None:
        """Report what is wrong with a task that is not run: config values need not be given."""
        is_implied = "config_spec" not in node.entries
        parameters = read_parameters(node.get("config_spec"), self.problems)
        config = resolve_config(
            parameters, {}, self.problems, place=node.place, needs_all=False, is_implied=is_implied
        )
        build_task(node, config, self.problems)

    def _check_adapter(self, model: ModelSpec) -> None:
        from answerkey.spec.models import OWN_ADAPTERS

        known = OWN_ADAPTERS | self.adapters.keys()
        if model.adapter is not None and model.adapter not in known:
            hint = suggest(model.adapter, known) or f"adapters: {listing(sorted(known))}"
            self.problems.add(
                "E113", f"model adapter `{model.adapter}` is not defined", model.place, hint
            )

    def _keep(
        self,
        built: Any,  # noqa: ANN401 - whatever has a key
        entry: Node,
        kept: dict[str, Any],
        what: str,
        broken: set[str],
    ) -> None:
        if built is None:
            broken.update(filter(None, [entry.key]))
            return
        if built.key in kept:
            where = getattr(built, "place", None) or entry.place
            self.problems.add("E114", f"{what} key `{built.key}` is used twice", where)
        kept.setdefault(built.key, built)

    def open_given_dataset(self) -> None:
        """Open what `--dataset` names: a key of the run file, a dataset file, data files or an
        address.
        """
        given = self.overrides.dataset
        if given is None:
            return
        if not isinstance(given, str | Path):
            self.given_dataset = DatasetSpec("samples", given)
            return
        path, is_here = Path(given), not is_remote(str(given))
        # A folder may be called like the benchmark whose files it has.
        if str(given) in self.datasets and not (self.open_files and path.exists()):
            self.given_dataset = self.datasets[str(given)]
            return
        try:
            if is_here and path.suffix.lower() in _YAML:
                node = self.read(path, limit=path.parent)
                self.given_dataset = build_dataset(with_key(node), self.problems, base=path.parent)
                return
            if is_here and not path.exists():
                there = sorted(map(str, path.parent.iterdir())) if path.parent.is_dir() else []
                hint = suggest(str(path), there) or f"files there: {listing(there, limit=5)}"
                hint += (
                    f" datasets of the run file: {listing(self.datasets)}" if self.datasets else ""
                )
                message = f"`--dataset {given}`: there is no such file"
                raise SpecError("E119", message, where=Place(file=str(given)), hint=hint)
            self.given_dataset = (self.open_files or DatasetSpec.of_path)(given)
        except AnswerkeyError as error:
            self.problems.report(error)

    def find_dataset(self, key: str, place: Place) -> DatasetSpec | None:
        """Return a dataset by key; report one that is not defined."""
        found = self.datasets.get(key)
        if found is None and not (
            key in self.broken_datasets or "datasets" in self.unread or "<<" in key
        ):
            known = f"datasets: {listing(self.datasets)}" if self.datasets else None
            hint = suggest(key, self.datasets) or known or "give the file with `--dataset FILE`"
            self.problems.add("E113", f"dataset `{key}` is not defined", place, hint)
            self.broken_datasets.add(key)
        return found

    @property
    def given_model(self) -> str | None:
        """The model that the caller names, as a file would: by its key, its path, or with its
        provider.
        """
        given = self.overrides.model_name
        if given is None or given in self.models or isinstance(self.overrides.model, ModelConfig):
            return given
        if given.lower().endswith(_YAML) and (Path(given).exists() or not is_live(given)):
            return str(resolve_path(Path(given), Place(file="--model")))
        return given if suggest(given, self.models) else complete_name(given)

    def open_model_file(self, path: str, typed: str | None = None) -> None:
        """Define the model of a model file by its path.

        What is wrong with it is reported as `typed`.
        """
        if path in self.models or path in self.broken_models:
            return
        from answerkey.spec.models import build_model

        try:
            node = self.read(Path(typed or path), limit=Path(path).parent)
            built = build_model(node, self.problems)
        except SpecError as error:
            self.problems.report(error)
            built = None
        if built is None:
            self.broken_models.add(path)
            return
        self.models[path] = built
        self._check_adapter(built)

    def choose_model(self, choice: ModelChoice, *, is_called: bool = True) -> str | ModelConfig:
        """Return the model that a reference means, for `open_model`; raises SpecError when it means
        none.

        One that `is_called` must be fit for that, too.
        """
        name, spec = choice.reference, self.models.get(choice.reference)
        if isinstance(self.overrides.model, ModelConfig) and name == self.overrides.model.name:
            return self.overrides.model
        hosts = frozenset(self.overrides.allow_hosts)
        caller = Caller(self.environment.values, self.environment.project_names, hosts)
        if spec is None and "/" not in name and ":" not in name:
            from answerkey.models.model import suggest_model

            near, whole = suggest(name, self.models), complete_name(name)
            hints = [near or f"models: {listing(self.models)}"]
            if whole != name:
                hints.append(f"write `{whole}` for the model of that provider")
            elif not near:
                hints.append(
                    suggest_model(name) if choice.is_callers else "or name one as `builtin/random`"
                )
            hint = "; ".join(hints if near or self.models or not choice.is_callers else hints[1:])
            raise SpecError("E113", f"model `{name}` is not defined", where=choice.place, hint=hint)
        model: str | ModelConfig
        if spec is not None and spec.config is not None:
            config = spec.config.config
            if isinstance(config, CustomConfig) and spec.adapter is not None:
                config = replace(config, adapter=self.adapters.get(spec.adapter))
            model = replace(spec.config, config=config, caller=caller)
        else:
            model = name = spec.name if spec is not None and spec.name is not None else name
            try:
                if is_live(name):
                    is_callers = choice.is_callers
                    model = read_name(
                        name, caller=caller, is_callers=is_callers, place=choice.place
                    )
                else:
                    from answerkey.models.model import open_model

                    open_model(name)
            except SpecError as error:
                raise SpecError(
                    error.code, error.message, where=choice.place, hint=error.hint
                ) from None
        if not is_called:
            return model
        if spec is not None and spec.task == "embeddings":
            message = f"model `{choice.reference}` gives embeddings: it cannot complete prompts"
            raise SpecError("E301", message, where=choice.place)
        if isinstance(model, str):
            return model
        model = replace(model, generation=choice.generation.over(model.generation))
        if not model.snippets:
            from answerkey.models.model import open_model

            open_model(model)
        elif (mistake := check_snippet(model.snippets[0])) is not None:
            raise mistake
        elif forced := model.generation.forced():
            message = f"model `{model.name}` is Python code, which is not given {listing(forced)}"
            raise SpecError(
                "E108", message, where=choice.place, hint="leave it out of `generation`"
            )
        return model

    def find_model(self, choice: ModelChoice, *, is_called: bool) -> str | ModelConfig | None:
        """Return a model to call, or None; report one that is not defined, or cannot be called."""
        if choice.reference.lower().endswith(_YAML) and choice.reference == self.given_model:
            self.open_model_file(choice.reference, self.overrides.model_name)
        if choice.reference in self.broken_models or "<<" in choice.reference:
            return None
        try:
            found = self.choose_model(choice, is_called=is_called)
        except SpecError as error:
            if error.code != "E113" or "models" not in self.unread:
                self.problems.report(error)
            return None
        if is_called and isinstance(found, str) and choice.generation.given():
            self.problems.notice(f"`generation` has no effect on the model `{found}`", choice.place)
        return found if is_called else None

    def find_judges(self, task: Task, *, is_callers: bool = False) -> Judges:
        """Return the model of each scorer that calls one, by the scorer's key.

        What is wrong is reported. They are named like the model of a task, and generate as their
        own definition says.
        """
        choices = _list_judges(task, is_callers=is_callers)
        found = {key: self.find_model(choice, is_called=True) for key, choice in choices.items()}
        return {key: model for key, model in found.items() if model is not None}

    def check_named(self, config: Config) -> None:
        """Report `dataset` and `model` parameters that name nothing."""
        for key, name in config.of_type("dataset").items() if self.given_dataset is None else ():
            self.find_dataset(name, config.places.get(key, Place()))
        for key, name in config.of_type("model").items():
            self.find_model(ModelChoice(name, config.places.get(key, Place())), is_called=False)

    def resolve(self, node: Node, given: Mapping[str, Given]) -> Config:
        """Return the config of a task or an evaluation: what is given, over its defaults.

        `--dataset` and `--model` are for parameters that are left open.
        """
        is_implied, filled = "config_spec" not in node.entries, dict(given)
        if is_implied:
            parameters = imply_parameters(node)
        else:
            parameters = read_parameters(node.get("config_spec"), self.problems)
        for key, parameter in parameters.items():
            if key in given or parameter.has_default:
                continue
            if isinstance(parameter, DatasetParameter) and self.given_dataset is not None:
                filled[key] = Given(self.given_dataset.key, Place(file="--dataset"))
            if isinstance(parameter, ModelParameter) and self.given_model is not None:
                filled[key] = Given(self.given_model, Place(file="--model"))
        return resolve_config(
            parameters, filled, self.problems, place=node.place, is_implied=is_implied
        )

    def adopt(self, ready: ReadyMade, given: Mapping[str, Given]) -> dict[str, Given]:
        """Add a ready-made task to what is defined.

        Return its config values, with its datasets among them. They may depend on the config
        (`split`, `subset`): each kind of them has a key of its own.
        """
        self.tasks.setdefault(ready.name, ready.task)
        mistakes = Problems()  # they are reported when the task is built
        config, chosen = ready.config(given, mistakes), dict(given)
        if mistakes.errors:
            self.broken_datasets |= {ready.name, f"{ready.name}_examples"}
            return chosen
        self.open_files = partial(
            open_raw_files, ready=ready, config=config, problems=self.problems
        )
        for parameter, node in ready.hub_datasets():
            dataset = build_dataset(
                config.fill(node, self.problems), self.problems, base=self.folder
            )
            stated = str(given[parameter].value) if parameter in given else None
            is_path = (
                stated is not None
                and stated not in self.datasets
                and (self.folder / stated).exists()
            )
            if parameter == "examples" and is_path:
                opened = self.open_files(str(self.folder / str(stated)))
                dataset = (
                    dataset and opened and replace(opened, key=dataset.key, place=dataset.place)
                )
            elif stated is not None:
                continue
            if dataset is None:
                continue
            for key in chain([dataset.key], (f"{dataset.key}-{number}" for number in count(2))):
                there = self.datasets.setdefault(key, replace(dataset, key=key))
                is_users = (there.place and there.place.file) != (
                    dataset.place and dataset.place.file
                )
                if (
                    is_users or there.source == dataset.source
                ):  # one that the run file defines itself stays
                    chosen[parameter] = Given(key, ready.hub.place)
                    break
        return chosen


def _list_judges(task: Task, *, is_callers: bool = False) -> dict[str, ModelChoice]:
    """Return how the scorers that call a model name it, by the scorer's key."""
    return {
        step.key: ModelChoice(
            step.scorer.model_key, task.place(*step.model_path), is_callers=is_callers
        )
        for step in task.scoring
        if asks_model(step.scorer)
    }


def load_task(
    task: str | Path | Mapping[str, object],
    *,
    config: Mapping[str, object] | None = None,
    overrides: Overrides | None = None,
) -> Loaded[Task]:
    """Return the Task of a task file, or of a mapping of the same form, with everything found on
    the way.
    """
    overrides, problems = overrides or Overrides(), Problems()
    built = None
    try:
        known, node = _open(task, overrides, problems)
        if node.is_map and not node.is_broken and not _is_task(node):
            message = "this is not a task file: it has no `definition`"
            hint = "give the task file itself, or use `load_plan`"
            problems.add("E108", message, node.place, hint)
        else:
            given = given_by_caller({**overrides.config, **(config or {})})
            built = build_task(with_key(node), known.resolve(node, given), problems)
    except (SpecError, DataError) as error:
        problems.report(error)
    return Loaded.of(built, problems)


def is_task_file(path: str | Path) -> bool:
    """Return whether a path leads to a task file.

    A run file, a folder and what cannot be read do not.
    """
    try:
        _, node = _open(path, Overrides(), Problems())
    except (SpecError, DataError):
        return False
    return node.is_map and _is_task(node)


def load_dataset(path: str | Path, overrides: Overrides | None = None) -> DatasetSpec | None:
    """Return the dataset of a dataset file, None for a file of another kind.

    Raise all errors at once.
    """
    problems = Problems()
    known, node = _open(path, overrides or Overrides(), problems)
    if not _is_dataset(node):
        return None
    built = build_dataset(node, problems, base=known.folder)
    raise_all(sort_errors(problems.errors))
    return built


def load_model(
    reference: str, path: str | Path, *, generation: Generation, overrides: Overrides
) -> str | ModelConfig:
    """Return the model that a reference means in the project of a file, for `open_model`; raises
    SpecError.

    The file counts as having named it, not the caller. It is only read for a model that it defines
    itself.
    """
    problems, file = Problems(), Path(path)
    known = Definitions.open(file if file.is_dir() else file.parent, overrides, problems)
    if is_url(reference):
        # Whoever stored the reference chose the host; the keys of this project are not theirs to
        # send there.
        known.environment = load_environment(None, overrides.env)
    if reference.lower().endswith(_YAML) and not is_live(
        reference
    ):  # named by the caller of the first time
        known.open_model_file(reference)
    elif "/" not in reference and not is_data_file(file):
        known.define(known.read(find_file(file)))
    if reference in known.broken_models:
        raise problems.errors[0]
    return known.choose_model(ModelChoice(reference, Place(file=str(file)), generation=generation))


def load_judges(
    task: Task, *, run_file: str | Path | None, overrides: Overrides, is_callers: bool = False
) -> Judges:
    """Return the models that the scorers of a task call, by the scorer's key.

    Raise all errors at once. A key is looked up in `run_file`, where the task is used; without one,
    only a name will do. `is_callers`: the caller wrote the task, not a file.
    """
    choices = _list_judges(task, is_callers=is_callers)
    keys = [one for one in choices.values() if "/" not in one.reference]
    if run_file is None:
        hint = (
            "name it as `provider/model` or by its URL (`http://HOST/v1#NAME`), or use a run file"
        )
        message = "model `{}` is not defined: a task by itself has no models"
        found = ((message.format(one.reference), one.place) for one in keys)
        raise_all([SpecError("E113", text, where=place, hint=hint) for text, place in found])
    if not choices:
        return {}
    problems, file = Problems(), run_file or task.file
    folder = Path() if file is None else Path(file) if Path(file).is_dir() else Path(file).parent
    known = Definitions.open(folder, overrides, problems)
    if keys and run_file is not None:
        node = known.read(find_file(Path(run_file)))
        if "definition" not in node.entries:
            known.define(node)
    # What is wrong elsewhere in the run file does not matter, unless a judge is what is wrong
    # there.
    before = len(problems.errors)
    judges = known.find_judges(task, is_callers=is_callers)
    raise_all(problems.errors[before:] or (problems.errors if len(judges) < len(choices) else []))
    return judges


def load_plan(
    path: Task | str | Path | Mapping[str, object], overrides: Overrides | None = None
) -> Loaded[Plan]:
    """Return what a run file, a folder with `run.yaml`, a task file, a Task or a ready-made task is
    to do.
    """
    overrides, problems = overrides or Overrides(), Problems()
    plan = None
    try:
        if isinstance(path, Task):
            known = Definitions.open(Path(path.file or "").parent, overrides, problems)
            known.given_task = path
            known.open_given_dataset()
            stated = PlannedTask.alone(path.key, path.places, given_by_caller(overrides.config))
            plan = _plan_alone(stated, known)
        elif (ready := find_ready_made(path)) is not None:
            known, found = Definitions.open(Path(), overrides, problems), load_ready_made(ready)
            given = known.adopt(found, given_by_caller(overrides.config))
            known.open_given_dataset()
            plan, about = (
                _plan_alone(PlannedTask.alone(ready, found.task, given), known),
                found.about,
            )
            plan = plan and replace(
                plan, key=ready, display_name=about.title, description=about.summary
            )
        else:
            plan = _plan_file(*_open(path, overrides, problems))
    except (SpecError, DataError) as error:
        problems.report(error)
    return Loaded.of(plan, problems)


def _open(
    path: str | Path | Mapping[str, object], overrides: Overrides, problems: Problems
) -> tuple[Definitions, Node]:
    if (name := find_ready_made(path)) is not None:
        return Definitions.open(Path(), overrides, problems), load_ready_made(name).task
    if is_data_file(path):
        from answerkey.spec.data_file import make_run

        folder = Path() if is_remote(str(path)) else Path(str(path)).parent
        node = from_plain(
            make_run(str(path), overrides, problems), Place(file=show_file(str(path)))
        )
        return Definitions.open(folder, overrides, problems), node
    if overrides.columns:
        hint = "name the columns in the task, or in `questions` of the dataset"
        raise SpecError("E119", f"`--column` is for a data file, and `{path}` is none", hint=hint)
    source = path if isinstance(path, Mapping) else find_file(Path(path))
    if isinstance(source, Path) and not source.suffix and not source.exists():
        message = f"there is no file and no ready-made task `{path}`"
        hint = suggest_ready_made(str(path)) or "`answerkey tasks` lists the ready-made tasks"
        raise SpecError("E101", message, where=Place(file=str(path)), hint=hint)
    known = Definitions.open(
        source.parent if isinstance(source, Path) else Path(), overrides, problems
    )
    if isinstance(source, Mapping) or source.suffix.lower() in YAML_ENDINGS:
        return known, known.read(source)
    try:
        node = known.read(source)
    except SpecError as error:
        if error.code != "E102":
            raise
        node = Node(None, Place())
    if not node.is_map:
        content = Content(str(source), source)
        endings = (
            f"endings of data files: {listing(FORMATS)}, each also with {listing(COMPRESSIONS)}"
        )
        message = f"`{source}` is no YAML file, and its ending names no format of data"
        raise content.error("E201", message, hint=content.guess() or endings)
    return known, node


def _is_task(node: Node) -> bool:
    keys = node.entries.keys()
    return "definition" in keys or ("key" in keys and not keys & (_RUN_ONLY | _DATASET_ONLY))


def _is_dataset(node: Node) -> bool:
    keys = node.entries.keys()
    return bool(keys & _DATASET_ONLY and not keys & _RUN_ONLY and "definition" not in keys)


def _plan_file(known: Definitions, node: Node) -> Plan | None:
    """Return the plan of a run file or a task file; raise for files of other kinds."""
    if not node.is_map:
        hint = "a run file has `tasks` and `evaluation`, a task file has `key` and `definition`"
        message = "the file is empty" if node.is_null else "the file must be a mapping"
        raise SpecError("E108", message, where=node.place, hint=hint)
    keys = node.entries.keys()
    if "evaluations" in keys:
        hint = "run each entry of `evaluations` as a run file of its own"
        message = "evaluation plans of the original platform are not done"
        raise SpecError("E116", message, where=node.key_place("evaluations"), hint=hint)
    if "task_specifications" in keys and "definition" not in keys:
        hint = "write a run file with `evaluation: {$ref: …}`, beside its `tasks` and `datasets`"
        where = node.key_place("task_specifications")
        raise SpecError("E108", "this is an evaluation, not a run file", where=where, hint=hint)
    if _is_task(node):
        known.open_given_dataset()
        node = with_key(node)
        key = node.key or "task"
        known.tasks[key] = node
        return _plan_alone(
            PlannedTask.alone(key, node, given_by_caller(known.overrides.config)), known
        )
    if _is_dataset(node):
        hint = "name a task file and give this file with `--dataset`"
        message = "this is a dataset file, not a task or run file"
        raise SpecError("E108", message, where=node.place, hint=hint)
    return _plan_run(known, node)


def _plan_alone(planned: PlannedTask, known: Definitions) -> Plan | None:
    """Return the plan of one task, on the dataset that the caller names."""
    specifications = [one for one in _specify([planned], known) if one is not None]
    if not specifications:
        return None
    task, file = specifications[0].task, planned.node.place.file or ""
    policies = _plan_policies(known, task.key, specifications, Node(None, Place()), Config())
    about = (
        task.key,
        tuple(specifications),
        known.folder,
        file,
        task.display_name,
        task.description,
    )
    return Plan(*about, **policies)


def _plan_run(known: Definitions, node: Node) -> Plan | None:
    """Return the plan of a run file."""
    problems = known.problems
    validate_node(shapes.RunFields, node, problems, name="the run file")
    known.define(node)
    known.open_given_dataset()
    base: dict[str, Any] = {}
    run_config, evaluation = node.field("run_config"), node.field("evaluation")
    if not run_config.is_null:
        refuse_config(run_config, problems)
        stated = validate_node(shapes.RunConfigFields, run_config, problems, name="`run_config`")
        base = {} if stated is None else stated.model_dump(exclude_none=True)
    given = {
        **read_given(node.get("config"), problems, name="config"),
        **given_by_caller(known.overrides.config),
    }
    models, fields, config = list[Node](), None, Config()
    planned, for_tasks = list[PlannedTask](), dict[str, Given]()
    if evaluation.is_null:
        for_tasks = given
        planned = [
            PlannedTask.alone(key, task, _pick_declared(given, task), selection=base)
            for key, task in known.tasks.items()
        ]
    elif not (evaluation := with_key(carry_over(evaluation, "evaluation", problems))).is_map:
        validate_node(shapes.EvaluationFields, evaluation, problems, name="`evaluation`")
    else:
        declared = _pick_declared(given, evaluation)
        for_tasks = {name: one for name, one in given.items() if name not in declared}
        config = known.resolve(evaluation, declared)
        known.check_named(config)
        filled = config.fill(evaluation.without("config_spec"), problems)
        if not filled.field("matrix").is_null:
            filled, models = _read_matrix(filled, known)
        fields = validate_node(shapes.EvaluationFields, filled, problems, name="`evaluation`")
        models = models if fields and fields.matrix else []
        earlier = (
            {} if fields is None else fields.model_dump(include=set(_SELECTION), exclude_none=True)
        )
        entries = filled.at("task_specifications").items
        read = [_read_specification(one, {**earlier, **base}, for_tasks, known) for one in entries]
        planned = [one for one in read if one is not None]
    names = set(config.parameters).union(*(_list_declared(one.node) for one in planned))
    for name, one in for_tasks.items() if "tasks" not in known.unread else ():
        if name not in names:
            hint = suggest(name, names) or f"names: {listing(sorted(names))}"
            problems.add("E110", f"unknown config name `{name}`", one.place, hint)
    used = {one.fields.task_key for one in planned}
    for key, task in known.tasks.items():
        if key not in used:
            known.look_at_task(task)
    common = run_config.get("trials_config") if "trials_config" in base else None
    planned = [
        replace(one, node=override_trials(one.node, common, one.entry.get("trials")))
        for one in planned
    ]
    matrix = {
        str(one.value): _specify([each.asking(one) for each in planned], known) for one in models
    }
    built = next(iter(matrix.values())) if matrix else _specify(planned, known)
    specifications = [one for one in built if one is not None]
    key = (
        fields.key if fields else Path(node.place.file or "run.yaml").resolve().parent.name or "run"
    )
    sound = specifications if None not in built else []
    return Plan(
        key=key,
        specifications=tuple(specifications),
        project=known.folder,
        file=node.place.file or "",
        display_name=fields.display_name if fields else None,
        description=fields.description if fields else None,
        cache_policy=base.get("cache_policy", fields.cache_policy if fields else None),
        **_plan_policies(known, key, sound, node.field("policies"), config),
        matrix={name: tuple(filter(None, each)) for name, each in matrix.items()},
    )


def load_feature(field: str) -> Any:  # noqa: ANN401 - a module above this one
    """Return the module that a field of a run file belongs to."""
    return import_module(FEATURES[field])


def _plan_policies(
    known: Definitions,
    key: str,
    specifications: Sequence[Specification],
    node: Node,
    config: Config,
) -> dict[str, Any]:
    """Return the policies of a run, the caller's or else the file's, checked against what is to be
    run.
    """
    if not known.overrides.states_gates and node.is_null:
        return {}
    tasks = {one.key: one.task for one in specifications}
    policies, places = load_feature("policies").plan_policies(known, key, tasks, node, config)
    return {"policies": policies, "rule_places": places}


def _read_matrix(evaluation: Node, known: Definitions) -> tuple[Node, list[Node]]:
    """Return an evaluation with the tasks of its matrix as task specifications, and the models to
    call.

    A model of the caller's, or recorded completions, stand in for those models.
    """
    problems, matrix = known.problems, evaluation.field("matrix")
    if "task_specifications" in evaluation.entries:
        message = "`matrix` and `task_specifications` exclude each other"
        problems.add(
            "E108", message, evaluation.key_place("matrix"), "name the tasks in one of them"
        )
    tasks = matrix.field("tasks")
    entries = [one if one.is_map else Node({"task_key": one}, one.place) for one in tasks.items]
    for entry in entries:
        for name in entry.entries.keys() & {"model_key", "completions"}:
            message = (
                f"`{name}` cannot stand in a `matrix`: every task is asked of all its `models`"
            )
            hint = "leave it out, or use `task_specifications`"
            problems.add("E108", message, entry.key_place(name), hint)
    models: dict[str, Node] = {}
    for one in matrix.field("models").items:
        if models.setdefault(str(one.value), one) is not one:
            problems.add("E114", f"model `{one.value}` is named twice", one.place, "name it once")
    overrides, listed = known.overrides, Node(tuple(entries), tasks.place)
    is_replaced = overrides.model is not None or overrides.brings_completions
    called = [
        one for one in models.values() if one.is_scalar and not (one.is_broken or is_replaced)
    ]
    return evaluation.having("task_specifications", listed), called


def _read_specification(
    entry: Node, common: Mapping[str, object], for_tasks: Mapping[str, Given], known: Definitions
) -> PlannedTask | None:
    problems = known.problems
    entry = carry_over(entry, "specification", problems)
    fields = validate_node(SpecificationFields, entry, problems, name="the task specification")
    if fields is None:
        return None
    key = fields.task_key
    given = read_given(entry.get("task_config"), problems, name="task_config")
    if key not in known.own_tasks and key in list_ready_made():
        given = known.adopt(load_ready_made(key), given)
    node = known.tasks.get(key)
    if node is None:
        if "tasks" not in known.unread and "<<" not in key:
            hint = suggest(key, known.tasks) or f"tasks: {listing(known.tasks)}"
            problems.add(
                "E113", f"task `{key}` is not defined", entry.entries["task_key"].place, hint
            )
        return None
    completions: Path | str | None = None
    if fields.completions is not None:
        try:
            place = entry.entries["completions"].place
            completions = resolve_stated(fields.completions, place, known.folder)
        except SpecError as error:
            problems.report(error)
    given |= _pick_declared(for_tasks, node)
    return PlannedTask(fields, node, given, entry, common, completions)


def _list_declared(task: Node) -> set[str]:
    if "config_spec" not in task.entries:
        return set(imply_parameters(task))
    return {entry.key for entry in task.at("config_spec").items if entry.key is not None}


def _pick_declared(given: Mapping[str, Given], task: Node) -> dict[str, Given]:
    """Return the values whose names a task declares."""
    return {name: one for name, one in given.items() if name in _list_declared(task)}


def _add_variants(planned: PlannedTask, listed: Node, known: Definitions) -> Iterator[PlannedTask]:
    """Yield a task, and one more for each of its `variants`: the same task with another prompt.

    Recorded completions are answers to one prompt: they are taken for those of the task itself.
    """
    problems, definition = known.problems, planned.node.field("definition")
    bare, solver = definition.without("variants"), definition.field("solver")
    name = planned.key or planned.fields.task_key
    planned = replace(planned, node=planned.node.having("definition", bare))
    if known.overrides.brings_completions or planned.completions is not None:
        message = "recorded completions are answers to one prompt: `variants` are left out"
        problems.notice(message, listed.place)
        yield planned
        return
    yield replace(planned, variant=Variant(name, BASE))
    if "input_builder" not in solver.entries:
        message = "`variants` are other prompts, and the task's solver has none"
        problems.add("E108", message, listed.place, "give the task a `single_turn_solver`")
        return
    others = [(entry.key, "variant", entry.place) for entry in listed.items]
    assign_keys(
        [(BASE, BASE, definition.place), *others], problems, what="variant", within="in the task"
    )
    for entry in listed.items:
        fields = validate_node(variant_model(), entry, problems, name="the variant")
        builder = entry.get("input_builder")
        if fields is None or entry.key is None or builder is None:
            continue
        other = bare.having("solver", solver.having("input_builder", builder))
        node = planned.node.having("definition", other)
        yield replace(planned, node=node, variant=Variant(name, entry.key))


def _specify(stated: Sequence[PlannedTask], known: Definitions) -> list[Specification | None]:
    """Return the specifications of tasks and of their variants.

    None for one that cannot be built.
    """
    planned: list[PlannedTask] = []
    for one in stated:
        variants = one.node.field("definition").field("variants")
        planned.extend([one] if variants.is_null else _add_variants(one, variants, known))
    wanted = [(one.key, one.fields.task_key, one.entry.place) for one in planned]
    keys = assign_keys(
        wanted, known.problems, what="task specification", within="in the evaluation"
    )
    built: list[Specification | None] = []
    for one, key in zip(planned, keys, strict=True):
        config = known.resolve(one.node, one.given)
        for name, other in config.of_type("task_result").items():
            if other not in keys:
                hint = suggest(other, keys) or f"task specifications: {listing(keys)}"
                what = f"names the task specification `{other}`, which is not defined"
                place = config.places.get(name, one.entry.place)
                known.problems.add("E113", f"config value `{name}` {what}", place, hint)
        task = known.given_task or build_task(one.node, config, known.problems)
        if task is not None:
            known.check_named(config)
        built.append(None if task is None else _specify_one(task, one, key, known))
    return built


def _specify_one(
    task: Task, planned: PlannedTask, key: str, known: Definitions
) -> Specification | None:
    overrides, fields = known.overrides, planned.fields
    dataset = _choose_dataset(task, known)
    needs_model = task.solver is not None and task.solver.needs_model
    # A model that the caller names is called in place of recorded completions that the file names.
    recorded = None if needs_model and overrides.model is not None else planned.completions
    reference, model = known.given_model or fields.model_key, None
    if reference is not None:
        from answerkey.spec.models import build_generation

        is_callers = overrides.model is not None
        place = Place(file="--model") if is_callers else planned.entry.key_place("model_key")
        choice = ModelChoice(reference, place, is_callers, build_generation(fields))
        is_called = needs_model and not overrides.brings_completions and recorded is None
        model = known.find_model(choice, is_called=is_called)
    wanted, examples = getattr(task.solver, "examples", None), None
    if wanted is not None:
        place = task.place("definition", "solver", "examples", "dataset")
        is_same = wanted.dataset == task.dataset_key
        examples = dataset if is_same else known.find_dataset(wanted.dataset, place)
    judges = known.find_judges(task)
    if dataset is None:
        return None
    named = known.models.get(fields.model_key or "")
    selected: dict[str, Any] = {
        name: one for name, one in planned.selection.items() if name in _SELECTION
    }
    for stated in (fields, overrides):
        selected |= {
            name: one for name in _SELECTION if (one := getattr(stated, name, None)) is not None
        }
    return Specification(
        key=key,
        task=task,
        dataset=dataset,
        display_name=fields.display_name,
        model=model,
        model_key=reference,
        model_name=fields.model_key if named is None else named.title,
        selection=Selection(**selected),
        num_runs=fields.repeatability.num_runs if fields.repeatability else 1,
        examples=examples,
        judges=judges,
        variant=planned.variant,
        completions=recorded,
    )


def _choose_dataset(task: Task, known: Definitions) -> DatasetSpec | None:
    if known.overrides.dataset is not None:
        return known.given_dataset  # one that could not be read has been reported
    if task.dataset_key is not None:
        return known.find_dataset(task.dataset_key, task.place("definition", "dataset"))
    if len(known.datasets) == 1:
        return next(iter(known.datasets.values()))
    hint = "give one with `--dataset FILE`"
    if known.datasets:
        hint = f"name one in `definition.dataset.key` (there: {listing(known.datasets)}), or {hint}"
    if "datasets" not in known.unread:
        known.problems.add(
            "E119", f"task `{task.key}` names no dataset", task.place("definition"), hint
        )
    return None
