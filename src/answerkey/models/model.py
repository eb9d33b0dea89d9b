"""What a model is, and how its name finds it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import ClassVar, Protocol, cast

from answerkey.errors import SpecError, listing, suggest
from answerkey.models.builtin import ConstantModel, LongestModel, OverlapModel, RandomModel
from answerkey.models.configs import InferenceConfig, ModelConfig, is_live, read_name
from answerkey.models.connecting import connect
from answerkey.models.hosts import Caller
from answerkey.models.inference import SECONDS, SnippetModel
from answerkey.models.live import LiveModel
from answerkey.models.parameters import Parameter, read_query
from answerkey.models.providers import PROVIDERS
from answerkey.models.simulated import SimulatedModel
from answerkey.types import Completion, Known, Question

PREFIX = "builtin"
PLUGIN_GROUP = "answerkey.models"


class Model(Protocol):
    """Who answers. `name` is what the user wrote; `is_simulated` marks every summary and report."""

    @property
    def name(self) -> str:
        """The name as the user wrote it."""
        ...

    @property
    def is_simulated(self) -> bool:
        """Whether the completions are made up from the key."""
        ...

    def answer(self, questions: Sequence[Question]) -> list[Completion]:
        """Return one completion for each question, in order."""
        ...


class BuiltinModel(Model, Protocol):
    """A model of ours: its class knows its parameters and what it needs to know of a sample."""

    needs: ClassVar[frozenset[str]]
    parameters: ClassVar[dict[str, Parameter]]


BUILTIN_MODELS: dict[str, type[BuiltinModel]] = {
    "constant": cast("type[BuiltinModel]", ConstantModel),
    "random": cast("type[BuiltinModel]", RandomModel),
    "longest": cast("type[BuiltinModel]", LongestModel),
    "overlap": cast("type[BuiltinModel]", OverlapModel),
    "simulated": cast("type[BuiltinModel]", SimulatedModel),
}


def open_model(model: str | ModelConfig, *, caller: Caller | None = None) -> Model:
    """Return the model with this name, or of this config; nothing is asked yet.

    A name is `builtin/…`, `provider/model`, `http://host/v1#model`, or begins with the prefix of an installed
    package. `caller` brings the keys for a live name; without it, the environment of this process does.
    """
    if isinstance(model, ModelConfig):
        return _open_config(model)
    prefix, slash, rest = model.partition("/")
    if prefix == PREFIX and slash:
        return _open_builtin(model, rest)
    if is_live(model):
        return _open_config(read_name(model, caller=caller or Caller.of_process(), is_callers=True))
    for plugin in entry_points(group=PLUGIN_GROUP):
        if plugin.name == prefix and slash:
            return _open_plugin(model, plugin)
    if not slash or suggest(prefix, [PREFIX]):
        raise _refuse_unknown(model, (rest if slash else model).partition("?")[0])
    raise _refuse_provider(model, prefix)


def _open_config(model: ModelConfig) -> Model:
    if isinstance(model.config, InferenceConfig):
        config = model.config
        return SnippetModel(model.name, config.snippet, config.environment, config.seconds or SECONDS)
    return LiveModel(connect(model))


def missing_parts(model: Model, known: Known | None) -> frozenset[str]:
    """Return what the model must know of every sample and nobody can tell it: `choices`, `truth`.

    Option texts are not among them: they may also come from the dataset.
    """
    needs: frozenset[str] = getattr(model, "needs", frozenset())
    return frozenset() if known is not None else needs - {"options"}


def _open_builtin(name: str, rest: str) -> Model:
    kind, _, query = rest.partition("?")
    found = BUILTIN_MODELS.get(kind)
    if found is None:
        raise _refuse_unknown(name, kind)
    build = cast("Callable[..., Model]", found)
    return build(name, **read_query(name, query, found.parameters))


def _open_plugin(name: str, plugin: EntryPoint) -> Model:
    try:
        build: Callable[[str], Model] = plugin.load()
    except (ImportError, AttributeError) as error:
        message = f"model `{name}`: the package that adds `{plugin.name}/…` cannot be loaded: {error}"
        raise SpecError("E301", message, hint=f"install `{plugin.value}` again, or remove it") from error
    return build(name)


def _refuse_unknown(name: str, kind: str) -> SpecError:
    near = suggest(kind, BUILTIN_MODELS)
    hint = near.replace("`", f"`{PREFIX}/", 1) if near else f"built-in models: {_list_builtin()}"
    return SpecError("E301", f"unknown model `{name}`", hint=hint)


def _refuse_provider(name: str, prefix: str) -> SpecError:
    known = [PREFIX, *PROVIDERS]
    near = suggest(prefix, known)
    rest = f"providers: {listing(known)}; any other endpoint is named by its URL: `http://HOST/v1#NAME`"
    return SpecError("E301", f"unknown model `{name}`", hint=near or rest)


def _list_builtin() -> str:
    return listing(f"{PREFIX}/{kind}" for kind in BUILTIN_MODELS)
