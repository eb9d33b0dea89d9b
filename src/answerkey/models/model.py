"""What a model is, how its name finds it, and the two kinds that are not built in: an endpoint, a snippet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from importlib.metadata import EntryPoint, entry_points
from typing import ClassVar, Protocol, Self

from answerkey.errors import HIDDEN, SolverError, SpecError, listing, suggest
from answerkey.models.actors import ActorClient, ActorHost
from answerkey.models.batch import BatchBook, BatchClient, BatchMeans
from answerkey.models.builtin import (
    BuiltinModel,
    ConstantModel,
    LongestModel,
    OverlapModel,
    RandomModel,
    SimulatedModel,
)
from answerkey.models.calls import (
    Budget,
    Call,
    ClientSettings,
    Finished,
    Identified,
    Ledger,
    MemoryLedger,
    ModelClient,
    Price,
    Watch,
    call_key,
)
from answerkey.models.config import InferenceConfig, ModelConfig, connect, is_live, read_name
from answerkey.models.providers import PROVIDERS, Connection
from answerkey.models.responses import fail, read_message
from answerkey.models.retry import Limits
from answerkey.models.settings import SECRET_NAME, SHORTEST_KEY, Caller, Secret, read_query
from answerkey.sandbox import Snippet, SnippetProcess, SnippetTrouble
from answerkey.types import Completion, CompletionStatus, Known, Question


@dataclass(frozen=True, eq=False)
class LiveModel:
    """A model that is asked over the network; a context manager, since it keeps its connections open.

    Without `bind` it remembers its answers only as long as it lives. With `batches`, where they are written
    down, calls are not sent one by one but handed in together; with `actors`, they are sent from there.
    """

    connection: Connection
    ledger: Ledger = field(default_factory=MemoryLedger)
    budget: Budget = field(default_factory=Budget)
    watch: Watch | None = None
    limits: Limits = field(default_factory=Limits)
    price: Price | None = None
    batches: BatchBook | None = None
    actors: ActorHost | None = None
    is_simulated: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """The name as the user wrote it."""
        return self.connection.name

    @property
    def identity(self) -> str:
        """A hash of everything that decides the answers; no secret is in it."""
        return self.connection.identity

    def bind(
        self,
        ledger: Ledger,
        budget: Budget | None = None,
        watch: Watch | None = None,
        *,
        limits: Limits | None = None,
        price: Price | None = None,
        batches: BatchBook | None = None,
        actors: ActorHost | None = None,
    ) -> LiveModel:
        """Return the same model with a ledger, a budget and an onlooker of its own."""
        return replace(
            self,
            ledger=ledger,
            budget=budget or Budget(),
            watch=watch,
            limits=limits or self.limits,
            price=price,
            batches=batches,
            actors=actors,
        )

    def require_ready(self) -> None:
        """Raise SpecError E117 when a key is missing, or would pass through a proxy without TLS."""
        from answerkey.models.proxy import find_proxy_for_key

        self.connection.require_key()
        if not self.connection.is_per_node:
            find_proxy_for_key(self.connection.url, self.name, has_key=self.connection.has_secret)

    def answer(
        self, questions: Sequence[Question], *, trial: int = 0, purpose: str = "solve"
    ) -> list[Completion]:
        """Return one completion for each question, in order; what the ledger knows is not asked."""
        return self._asker.ask(build_calls(self, questions, trial, purpose))

    def close(self) -> None:
        """Close the connections; twice does no harm."""
        if "_asker" in self.__dict__:
            self._asker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def _asker(self) -> ModelClient:
        self.require_ready()
        settings: ClientSettings = {
            "ledger": self.ledger,
            "limits": self.limits,
            "budget": self.budget,
            "price": self.price,
            "watch": self.watch,
        }
        if self.batches is not None:
            return BatchClient(self.connection, BatchMeans(self.batches), **settings)
        if self.actors is not None:
            return ActorClient(self.connection, self.actors, **settings)
        self.connection.require_address()
        return ModelClient(self.connection, **settings)


def build_calls(
    model: Identified, questions: Sequence[Question], trial: int, purpose: str = "solve"
) -> list[Call]:
    """Return the calls that questions are; the same question of the same model has the same key.

    `trial` counts on top of the questions' own.
    """
    numbers = [one.trial + trial for one in questions]
    return [
        Call(call_key(model, one.messages, number), one.sample_id, number, one.messages, purpose)
        for one, number in zip(questions, numbers, strict=True)
    ]


FUNCTION = "infer"
#: The function of the later era; it is given the messages in a mapping, as an endpoint is.
LATER_FUNCTION = "run_inference"
#: A local model may think for a while.
SECONDS = 120.0
#: So many calls are made before their answers are kept.
KEPT_AT_ONCE = 16


@dataclass(frozen=True, eq=False)
class SnippetModel:
    """Answers with what `infer(messages)` or `infer(messages, environment)` gives.

    Or `run_inference`, of the later era, which is given `{"messages": …}`. A text, a message, or a whole chat
    completion. Whoever opens it has made sure that the snippet is trusted.
    """

    name: str
    snippet: Snippet
    environment: Mapping[str, Secret] = field(default_factory=dict)
    seconds: float = SECONDS
    ledger: Ledger = field(default_factory=MemoryLedger)
    budget: Budget = field(default_factory=Budget)
    watch: Watch | None = None
    is_simulated: ClassVar[bool] = False

    @property
    def identity(self) -> str:
        """A hash of the snippet."""
        return sha256(f"inference\0{self.snippet.digest}".encode()).hexdigest()

    def bind(self, ledger: Ledger, budget: Budget | None = None, watch: Watch | None = None) -> SnippetModel:
        """Return the same model with a ledger, a budget and an onlooker of its own."""
        return replace(self, ledger=ledger, budget=budget or Budget(), watch=watch)

    def answer(
        self, questions: Sequence[Question], *, trial: int = 0, purpose: str = "solve"
    ) -> list[Completion]:
        """Return one completion for each question, in order; a call that fails has the status ERROR."""
        calls = build_calls(self, questions, trial, purpose)
        first = {call.key: call for call in reversed(calls)}
        known = dict(self.ledger.find(list(first.values())))
        for call in calls:
            if call.key in known:
                self._tell(call, known[call.key], is_known=True)
        missing = [call for call in calls if call.key not in known and first[call.key] is call]
        for start in range(0, len(missing), KEPT_AT_ONCE):
            known |= self._keep(missing[start : start + KEPT_AT_ONCE])
        return [known[call.key] for call in calls]

    def close(self) -> None:
        """End the process; twice does no harm."""
        self._process.close()

    @cached_property
    def _process(self) -> SnippetProcess:
        return SnippetProcess(self.snippet, seconds=self.seconds)

    def _keep(self, calls: Sequence[Call]) -> dict[str, Completion]:
        for _ in calls:
            self.budget.reserve(0.0)
        finished: list[tuple[Call, Completion]] = []
        try:
            finished.extend(zip(calls, self._infer(calls), strict=True))
        finally:  # what an interrupt finds answered is kept
            self.ledger.add(finished)
        for call, completion in finished:
            self._tell(call, completion, is_known=False)
        return {call.key: completion for call, completion in finished}

    def _infer(self, calls: Sequence[Call]) -> Iterator[Completion]:
        environment = {name: secret.reveal() for name, secret in self.environment.items()}
        arguments = ([self._show(call.messages), environment] for call in calls)
        try:
            for call, outcome in zip(calls, self._process.call_all(arguments), strict=True):
                yield replace(self._read(outcome), prompt=call.messages, source="live")
        except SnippetTrouble as trouble:
            message = f"model `{self.name}`: its snippet cannot be loaded: {self._hide(str(trouble))}"
            raise SolverError("E306", message, where=self.snippet.place) from None

    def _show(self, messages: Sequence[Mapping[str, object]]) -> object:
        shown = [dict(one) for one in messages]
        return {"messages": shown} if self.snippet.function == LATER_FUNCTION else shown

    def _read(self, outcome: object) -> Completion:
        if isinstance(outcome, SnippetTrouble):
            return fail(self._hide(str(outcome)))
        completion = read_message(self._hide_keys(outcome) if self._keys else outcome)
        if completion.status is CompletionStatus.NO_TEXT and not isinstance(outcome, Mapping | None):
            return fail(
                f"`{self.snippet.function}` gives neither a text nor a message: {type(outcome).__name__}"
            )
        return completion

    def _hide_keys(self, value: object) -> object:
        """Return what a snippet gave without the keys that it was given; its other values are no secrets."""
        if isinstance(value, Mapping):
            return {name: self._hide_keys(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self._hide_keys(one) for one in value]
        if isinstance(value, str):
            for key in self._keys:
                value = value.replace(key, HIDDEN)
        return value

    @cached_property
    def _keys(self) -> list[str]:
        named = [one.reveal() for name, one in self.environment.items() if SECRET_NAME.search(name)]
        return [key for key in named if len(key) >= SHORTEST_KEY]

    def _hide(self, text: str) -> str:
        for secret in self.environment.values():
            text = text.replace(secret.reveal(), "***") if secret else text
        return text

    def _tell(self, call: Call, completion: Completion, *, is_known: bool) -> None:
        if self.watch is not None:
            self.watch(Finished(call, completion, is_known))


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


BUILTIN_MODELS: dict[str, type[BuiltinModel]] = {
    "constant": ConstantModel,
    "random": RandomModel,
    "longest": LongestModel,
    "overlap": OverlapModel,
    "simulated": SimulatedModel,
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
    known = [PREFIX, *PROVIDERS]
    rest = f"providers: {listing(known)}; any other endpoint is named by its URL: `http://HOST/v1#NAME`"
    raise SpecError("E301", f"unknown model `{model}`", hint=suggest(prefix, known) or rest)


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
    build: Callable[..., Model] = found
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
    hint = (
        near.replace("`", f"`{PREFIX}/", 1)
        if near
        else f"built-in models: {listing(f'{PREFIX}/{one}' for one in BUILTIN_MODELS)}"
    )
    return SpecError("E301", f"unknown model `{name}`", hint=hint)
