"""What a model is, and how its name finds it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import ClassVar, Protocol, cast

from answerkey.errors import SpecError, listing, suggest
from answerkey.models.builtin import ConstantModel, LongestModel, OverlapModel, RandomModel
from answerkey.models.parameters import Parameter, read_query
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


def open_model(name: str) -> Model:
    """Return the model with this name: `builtin/…`, or one that an installed package adds by its prefix."""
    prefix, slash, rest = name.partition("/")
    if prefix == PREFIX and slash:
        return _open_builtin(name, rest)
    for plugin in entry_points(group=PLUGIN_GROUP):
        if plugin.name == prefix and slash:
            return _open_plugin(name, plugin)
    if not slash or suggest(prefix, [PREFIX]):
        raise _refuse_unknown(name, (rest if slash else name).partition("?")[0])
    raise _refuse_network(name)


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


def _refuse_network(name: str) -> SpecError:
    message = f"model `{name}`: asking models over the network is not in this release"
    hint = f"this release has {_list_builtin()}, and recorded completions (`--completions FILE`)"
    return SpecError("E116", message, hint=hint)


def _list_builtin() -> str:
    return listing(f"{PREFIX}/{kind}" for kind in BUILTIN_MODELS)
