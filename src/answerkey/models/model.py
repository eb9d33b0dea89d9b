"""How a name finds its model, and the two kinds that are not built in: an endpoint, a snippet.

Nothing that calls an endpoint is imported before a model is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from hashlib import sha256
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

from answerkey.errors import HIDDEN, SolverError, SpecError, listing, suggest
from answerkey.models.builtin import BUILTIN_MODELS
from answerkey.models.calls import (
    Call,
    CallSettings,
    Finished,
    Identified,
    Limits,
    call_key,
    complete_calls,
)
from answerkey.models.config import (
    LATER_INFERENCE_FUNCTION,
    SECRET_NAME,
    SHORTEST_KEY,
    Caller,
    InferenceConfig,
    Model,
    ModelConfig,
    Secret,
    is_live,
    is_loopback,
    read_name,
    read_parameters,
    split_query,
)
from answerkey.models.names import LOCAL, PROVIDERS, complete_name, say_who_serves
from answerkey.models.responses import fail, read_message
from answerkey.sandbox import Snippet, SnippetError, SnippetProcess
from answerkey.types import Completion, CompletionStatus, Question

if TYPE_CHECKING:
    from answerkey.models.actors import ActorHost
    from answerkey.models.batch import BatchBook
    from answerkey.models.client import ModelClient
    from answerkey.models.providers import Connection

#: What one call of a snippet may take: a local model may think for a while.
SECONDS = 120.0
#: So many calls of a snippet are made before their answers are kept.
KEPT_AT_ONCE = 16
#: So long local servers are asked what they have, and so many models of one are offered.
ASKED_SECONDS, MOST_OFFERED = 2.0, 40
PREFIX = "builtin"
PLUGIN_GROUP = "answerkey.models"


def open_model(model: str | ModelConfig, *, caller: Caller | None = None) -> Model:
    """Return the model with this name, or of this config; nothing is asked yet.

    A name is `builtin/…`, `provider/model`, `http://host/v1#model`, or begins with the prefix of an installed
    package; `gpt-4.1-nano` and the like are known without their provider. `caller` brings the keys for a live
    name; without it, the environment of this process does.
    """
    model = complete_name(model) if isinstance(model, str) else model
    if isinstance(model, str) and is_live(model):
        model = read_name(model, caller=caller or Caller.of_process(), is_callers=True)
    if isinstance(model, ModelConfig):
        if isinstance(model.config, InferenceConfig):
            config = model.config
            return SnippetModel(model.name, config.snippet, config.environment, config.seconds or SECONDS)
        from answerkey.models.providers import connect

        return LiveModel(connect(model))
    prefix, slash, rest = model.partition("/")
    kind, _, query = (rest if slash else model).partition("?")
    if prefix == PREFIX and kind in BUILTIN_MODELS and slash:
        built = BUILTIN_MODELS[kind]
        given = read_parameters(model, split_query(model, query), built.parameters)
        defaults = {name: one.default for name, one in built.parameters.items()}
        return replace(built, name=model, values=defaults | given)
    for plugin in entry_points(group=PLUGIN_GROUP):
        if plugin.name == prefix != PREFIX and slash:
            try:
                load: Callable[[str], Model] = plugin.load()
            except (ImportError, AttributeError) as error:
                message = f"model `{model}`: the package that adds `{prefix}/…` cannot be loaded: {error}"
                hint = f"install `{plugin.value}` again, or remove it"
                raise SpecError("E301", message, hint=hint) from error
            return load(model)
    raise SpecError("E301", f"unknown model `{model}`", hint=suggest_model(model))


class Offer(NamedTuple):
    """A model that could be called, and why; one of a provider whose key is set lacks its own name."""

    name: str
    why: str


def find_offers(caller: Caller) -> list[Offer]:
    """Return what could be called: models of servers that run on this machine, providers whose key is set.

    The servers are asked all at once, for two seconds at most; nothing is sent to another machine.
    """
    import asyncio

    from answerkey.models.http import HttpClient, list_models
    from answerkey.models.providers import connect

    async def list_all() -> list[Offer]:
        asked: dict[str, tuple[Connection, HttpClient]] = {}  # opened before anybody's time begins
        for name in LOCAL:
            with suppress(SpecError):  # an address that is none is told when the model is named
                found = connect(f"{name}/-", caller=caller)
                asked |= {name: (found, HttpClient(found, Limits()))} if is_loopback(found.url) else {}
        served = await asyncio.gather(*(list_models(*one, seconds=ASKED_SECONDS) for one in asked.values()))
        return [
            Offer(f"{name}/{one}", f"{LOCAL[name].title} on this machine")
            for name, names in zip(asked, served, strict=True)
            for one in names[:MOST_OFFERED]
        ]

    offers = asyncio.run(list_all())
    for name, one in PROVIDERS.items():
        key, base = f"{name.upper()}_API_KEY", one.base_url or caller.find(f"{name.upper()}_BASE_URL")
        if not one.is_local and base and caller.find(key) is not None:
            offers.append(Offer(f"{name}/", f"`{key}` is set"))
    return offers


def suggest_model(name: str) -> str:
    """Return what somebody may have meant who named a model that there is not."""
    prefix, slash, rest = name.partition("/")
    is_builtin = suggest(prefix, [PREFIX]) is not None
    near = suggest((rest if slash else name).partition("?")[0], BUILTIN_MODELS)
    if near is not None and (is_builtin or not slash):
        return near.replace("`", f"`{PREFIX}/", 1)
    if is_builtin or not name:
        return f"built-in models: {listing(f'{PREFIX}/{one}' for one in BUILTIN_MODELS)}"
    # Of names of the hub, `meta-llama/…`, the first part is not far from a provider's, either.
    providers = get_close_matches(prefix, PROVIDERS, n=1, cutoff=0.8) if slash else []
    return f"did you mean `{providers[0]}/{rest}`?" if providers else say_who_serves(name)


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


@dataclass(frozen=True, eq=False)
class LiveModel(CallSettings):
    """A model that is called over the network; a context manager, since it keeps its connections open.

    It remembers its answers as long as its ledger does. With `batches`, where they are written down, calls
    are not sent one by one but handed in together; with `actors`, they are sent from there.
    """

    connection: Connection
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
        return self._client.complete(build_calls(self, questions, trial, purpose))

    def close(self) -> None:
        """Close the connections; twice does no harm."""
        if "_client" in self.__dict__:
            self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def _client(self) -> ModelClient:
        self.require_ready()
        if self.batches is not None:
            from answerkey.models.batch import BatchClient

            return BatchClient(self.connection, self, self.batches)
        if self.actors is not None:
            from answerkey.models.actors import ActorClient

            return ActorClient(self.connection, self, self.actors)
        from answerkey.models.client import ModelClient

        self.connection.require_address()
        return ModelClient(self.connection, self)


@dataclass(frozen=True, eq=False)
class SnippetModel(CallSettings):
    """Answers with what `infer(messages)` or `infer(messages, environment)` gives.

    Or `run_inference`, of the later era, which is given `{"messages": …}`. A text, a message, or a whole chat
    completion. Whoever opens it has made sure that the snippet is trusted.
    """

    name: str
    snippet: Snippet
    environment: Mapping[str, Secret] = field(default_factory=dict)
    seconds: float = SECONDS
    is_simulated: ClassVar[bool] = False

    @property
    def identity(self) -> str:
        """A hash of the snippet."""
        return sha256(f"inference\0{self.snippet.digest}".encode()).hexdigest()

    def answer(
        self, questions: Sequence[Question], *, trial: int = 0, purpose: str = "solve"
    ) -> list[Completion]:
        """Return one completion for each question, in order; a call that fails has the status ERROR."""
        calls = build_calls(self, questions, trial, purpose)
        return complete_calls(calls, self.ledger.find(calls), self._send, self.watch)

    def _send(self, calls: Sequence[Call]) -> dict[str, Completion]:
        answered: dict[str, Completion] = {}
        for start in range(0, len(calls), KEPT_AT_ONCE):
            batch = calls[start : start + KEPT_AT_ONCE]
            for _ in batch:
                self.budget.reserve(0.0)
            finished: list[tuple[Call, Completion]] = []
            try:
                finished.extend(zip(batch, self._infer(batch), strict=True))
            finally:  # what an interrupt finds answered is kept
                self.ledger.add(finished)
            for call, completion in finished:
                answered[call.key] = completion
                if self.watch is not None:
                    self.watch(Finished(call, completion, is_known=False))
        return answered

    def close(self) -> None:
        """End the process; twice does no harm."""
        self._process.close()

    @cached_property
    def _process(self) -> SnippetProcess:
        return SnippetProcess(self.snippet, seconds=self.seconds)

    def _infer(self, calls: Sequence[Call]) -> Iterator[Completion]:
        environment = {name: secret.reveal() for name, secret in self.environment.items()}
        is_later = self.snippet.function == LATER_INFERENCE_FUNCTION
        shown = ([dict(one) for one in call.messages] for call in calls)
        arguments = ([{"messages": one} if is_later else one, environment] for one in shown)
        try:
            for call, outcome in zip(calls, self._process.call_all(arguments), strict=True):
                yield replace(self._read(outcome), prompt=call.messages, source="live")
        except SnippetError as problem:
            message = f"model `{self.name}`: its snippet cannot be loaded: {self._hide(str(problem))}"
            raise SolverError("E306", message, where=self.snippet.place) from None

    def _read(self, outcome: object) -> Completion:
        if isinstance(outcome, SnippetError):
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
