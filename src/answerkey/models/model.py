"""How a name finds its model, and the kinds that are not built in: endpoints, snippets, functions, packages'.

Nothing that calls an endpoint is imported before a model is called.
"""

from __future__ import annotations

import asyncio
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property, partial
from hashlib import sha256
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from answerkey.errors import (
    HIDDEN,
    AnswerkeyError,
    SolverError,
    SpecError,
    hide_secrets,
    listing,
    raise_if_interrupted,
    suggest,
)
from answerkey.models.builtin import BUILTIN_MODELS, read_choices
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
    FunctionConfig,
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
from answerkey.models.images import expand_images
from answerkey.models.names import LOCAL, PROVIDERS, complete_name, say_who_serves
from answerkey.models.responses import REPLY_KEYS, fail, read_message, take_out_thoughts
from answerkey.sandbox import Snippet, SnippetError, SnippetProcess
from answerkey.types import Completion, CompletionStatus, Question

if TYPE_CHECKING:
    from answerkey.models.actors import ActorHost
    from answerkey.models.batch import BatchBook
    from answerkey.models.client import Background, ModelClient
    from answerkey.models.providers import Connection

#: What one call of a snippet may take: a local model may think for a while.
SECONDS = 120.0
#: So many calls of a snippet are made before their answers are kept.
KEPT_AT_ONCE = 16
#: So long local servers are asked what they have, and so many models of one are offered.
ASKED_SECONDS, MOST_OFFERED = 2.0, 40
#: So many questions are handed to a package's model together, or asked of a function, before that.
MOST_AT_ONCE = 1_000
#: So many calls that all fail tell that the code does not work.
ENOUGH = 50
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
        if isinstance(model.config, FunctionConfig):
            return FunctionModel(model.name, model.config)
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
                load: Callable[[str], Any] = plugin.load()
            except (ImportError, AttributeError) as error:
                message = f"model `{model}`: the package that adds `{prefix}/…` cannot be loaded: {error}"
                hint = f"install `{plugin.value}` again, or remove it"
                raise SpecError("E301", message, hint=hint) from error
            found = load(model)
            if not hasattr(found, "answer"):  # a function of the messages
                return FunctionModel(model, FunctionConfig(found))
            needs: frozenset[str] = getattr(found, "needs", frozenset())
            return PackageModel(found.name, found, is_simulated=found.is_simulated, needs=needs)
    raise SpecError("E301", f"unknown model `{model}`", hint=suggest_model(model))


class Offer(NamedTuple):
    """A model that could be called, and why; one of a provider whose key is set lacks its own name."""

    name: str
    why: str


def find_offers(caller: Caller) -> list[Offer]:
    """Return what could be called: models of servers that run on this machine, providers whose key is set.

    The servers are asked all at once, for two seconds at most; nothing is sent to another machine.
    """
    from answerkey.models.http import HttpClient, list_models
    from answerkey.models.providers import connect

    async def list_all() -> list[Offer]:
        asked: dict[str, tuple[Connection, HttpClient]] = {}  # opened before anybody's time begins
        for name in LOCAL:
            with suppress(SpecError):  # an address that is none is told when the model is named
                found = connect(f"{name}/-", caller=caller)
                asked |= {name: (found, HttpClient(found, Limits()))} if is_loopback(found.url) else {}
        served = await asyncio.gather(*(list_models(*one, seconds=ASKED_SECONDS) for one in asked.values()))
        await asyncio.gather(*(client.close() for _, client in asked.values()))
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
    provider, _, served = name.partition(":")
    if provider in PROVIDERS and served:
        return f"write `{provider}/{served}`"
    if address := re.match(r"[\w.-]+:\d{4,5}(?![\w.])", name):
        url = f"http://{address[0]}/v1"
        return f"write the address with a model: `{url}#NAME` (`curl {url}/models` lists the names)"
    if prefix in {"hf", "transformers"} and rest:
        how = f"serve them with `vllm serve {rest}` and write `vllm/{rest}`"
        return f"answerkey does not load weights: {how}; or have Hugging Face serve it: `huggingface/{rest}`"
    # Of names of the hub, `meta-llama/…`, the first part is not far from a provider's, either.
    providers = get_close_matches(prefix, PROVIDERS, n=1, cutoff=0.8) if slash else []
    return f"did you mean `{providers[0]}/{rest}`?" if providers else say_who_serves(name)


def build_calls(
    model: Identified, questions: Sequence[Question], trial: int, purpose: str = "solve"
) -> list[Call]:
    """Return the calls that questions are; the same question of the same model has the same key.

    `trial` counts on top of the questions' own. A package's model sees the sample, too: what is asked alike
    may be answered otherwise.
    """
    is_cached, sees_sample, calls = not isinstance(model, NamedOnly), isinstance(model, PackageModel), []
    constrained = model if isinstance(model, LiveModel) and model.needs else None
    for one in questions:
        number, shown = one.trial + trial, one.messages
        shown = [*shown, {"sample_id": one.sample_id}] if sees_sample else shown
        choices = list(read_choices(constrained.name, one)) if constrained is not None else None
        shown = [*shown, {"choices": choices}] if choices else shown
        asked = replace(one, trial=number, messages=expand_images(one.messages)) if sees_sample else None
        key = call_key(model, shown, number)
        calls.append(Call(key, one.sample_id, number, one.messages, purpose, is_cached, asked, choices))
    return calls


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

    @property
    def needs(self) -> frozenset[str]:
        """What it must know of every sample: the choices, if its replies are constrained to them."""
        return frozenset({"choices"} if self.connection.generation.answer_format else ())

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

    @property
    def is_given_up(self) -> bool:
        """Whether the endpoint turned out to be of no use; it is not called again."""
        return "_client" in self.__dict__ and self._client.reason is not None

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
class CodeModel(CallSettings, ABC):
    """A model that is code of the user's: it is asked some calls at a time, which are kept then."""

    name: str
    is_simulated: bool = field(default=False, kw_only=True)
    needs: frozenset[str] = field(default=frozenset(), kw_only=True)

    @property
    def identity(self) -> str:
        """A hash of the name: of most code, what else decides the answers cannot be known."""
        return sha256(f"{type(self).__name__}\0{self.name}".encode()).hexdigest()

    @property
    def most(self) -> int:
        """How many calls are under way at once at most."""
        return 1

    def answer(
        self, questions: Sequence[Question], *, trial: int = 0, purpose: str = "solve"
    ) -> list[Completion]:
        """Return one completion for each question, in order; a call that fails has the status ERROR.

        What the ledger knows is not asked.
        """
        calls = build_calls(self, questions, trial, purpose)
        return complete_calls(calls, self.ledger.find(calls), self._send, self.watch)

    def _send(self, calls: Sequence[Call]) -> dict[str, Completion]:
        answered: dict[str, Completion] = {}
        size = min(MOST_AT_ONCE, KEPT_AT_ONCE * self.most)
        for start in range(0, len(calls), size):
            batch, finished, stop = list[Call](), list[tuple[Call, Completion]](), None
            for call in calls[start : start + size]:
                try:
                    self.budget.reserve(0.0)
                except SolverError as limit:  # those that it still allows are made
                    stop = limit
                    break
                batch.append(call)
            try:
                finished.extend(self._infer(batch))
            finally:  # what an interrupt finds answered is kept
                self.ledger.add(finished)
            for call, completion in finished:
                answered[call.key] = completion
                if self.watch is not None:
                    self.watch(Finished(call, completion))
            if stop is not None:
                raise stop
            has_failed = all(one.status is CompletionStatus.ERROR for one in answered.values())
            if len(answered) >= ENOUGH and has_failed:
                said = f"the first {len(answered)} calls of `{self.name}` all failed; {completion.error}"
                raise SolverError("E306", said, hint="what was asked is asked again when the run is resumed")
        return answered

    @abstractmethod
    def _infer(self, calls: Sequence[Call]) -> Iterable[tuple[Call, Completion]]:
        """Return the calls, in any order, with what was said to them."""

    def close(self) -> None:
        """Let go of what the code runs in; twice does no harm."""

    def _read(self, outcome: object, function: str) -> Completion:
        """Return what code gave: a text, a message, a whole chat completion; or what it raised.

        Anything else is an error of the call. A message may be without text, as those of endpoints may.
        """
        if isinstance(outcome, BaseException):
            return fail(hide_secrets(f"{type(outcome).__name__}: {outcome}".removesuffix(": ")))
        completion = take_out_thoughts(read_message(outcome))
        is_message = isinstance(outcome, Mapping) and not REPLY_KEYS.isdisjoint(outcome)
        is_number = isinstance(outcome, int | float)
        if is_number or (completion.status is CompletionStatus.NO_TEXT and not is_message):
            given = "None" if outcome is None else f"a value of type `{type(outcome).__name__}`"
            return fail(f"`{function}` returned {given}, not a text or a message")
        return completion


@dataclass(frozen=True, eq=False)
class SnippetModel(CodeModel):
    """Answers with what `infer(messages)` or `infer(messages, environment)` gives.

    Or `run_inference`, of the later era, which is given `{"messages": …}`. A text, a message, or a whole chat
    completion. Whoever opens it has made sure that the snippet is trusted.
    """

    snippet: Snippet
    environment: Mapping[str, Secret] = field(default_factory=dict)
    seconds: float = SECONDS

    @property
    def identity(self) -> str:
        """A hash of the snippet."""
        return sha256(f"inference\0{self.snippet.digest}".encode()).hexdigest()

    def close(self) -> None:
        """End the process; twice does no harm."""
        self._process.close()

    @cached_property
    def _process(self) -> SnippetProcess:
        return SnippetProcess(self.snippet, seconds=self.seconds)

    def _infer(self, calls: Sequence[Call]) -> Iterable[tuple[Call, Completion]]:
        environment = {name: secret.reveal() for name, secret in self.environment.items()}
        is_later = self.snippet.function == LATER_INFERENCE_FUNCTION
        shown = (expand_images(call.messages) for call in calls)
        arguments = ([{"messages": one} if is_later else one, environment] for one in shown)
        try:
            for call, outcome in zip(calls, self._process.call_all(arguments), strict=True):
                if isinstance(outcome, SnippetError):
                    said = fail(self._hide(str(outcome)))
                else:
                    given = self._hide_keys(outcome) if self._keys else outcome
                    said = self._read(given, self.snippet.function)
                yield call, replace(said, prompt=call.messages, source="live")
                raise_if_interrupted()
        except SnippetError as problem:
            message = f"model `{self.name}`: its snippet cannot be loaded: {self._hide(str(problem))}"
            raise SolverError("E306", message, where=self.snippet.place) from None

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


@dataclass(frozen=True, eq=False)
class FunctionModel(CodeModel):
    """Answers with what a function of the caller's gives for the messages; what it raises is a call's error.

    A plain function is called here, one call at a time unless the caller allows more, which are made in
    threads; an async one in an event loop.
    """

    config: FunctionConfig

    @property
    def is_function(self) -> bool:
        """Whether the caller brought the function itself; no name finds it again."""
        return "/" not in self.name

    @property
    def most(self) -> int:
        """How many calls are under way at once at most."""
        return self.limits.max_open or (self.limits.max_concurrent if self.config.is_async else 1)

    def _infer(self, calls: Sequence[Call]) -> Iterable[tuple[Call, Completion]]:
        from answerkey.models.client import GRACE_SECONDS, SIGNAL_SECONDS, report_stop

        under_way, most, loop = dict[Future[Completion], Call](), self.most, self.config.loop
        submit = partial(asyncio.run_coroutine_threadsafe, loop=loop) if loop else self._background.submit

        def collect() -> Iterable[tuple[Call, Completion]]:
            done, _ = wait(under_way, timeout=SIGNAL_SECONDS, return_when=FIRST_COMPLETED)
            raise_if_interrupted()
            return [(under_way.pop(one), one.result()) for one in done]

        pool = ThreadPoolExecutor(most, thread_name_prefix=f"answerkey-{self.name}")  # idle without threads
        try:
            for call in calls:
                if self.config.is_async:
                    under_way[submit(self._ask_async(call))] = call
                elif most > 1:
                    under_way[pool.submit(self._ask, call)] = call
                else:
                    yield call, self._ask(call)
                    raise_if_interrupted()
                while len(under_way) == most:
                    yield from collect()
            while under_way:
                yield from collect()
        except KeyboardInterrupt:  # what is under way is paid for
            if under_way:
                report_stop(len(under_way))
            until = time.monotonic() + GRACE_SECONDS
            while under_way and time.monotonic() < until:
                yield from collect()
            for one in under_way:
                one.cancel()
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _ask(self, call: Call) -> Completion:
        begun = time.monotonic()
        try:
            outcome = self.config.function(expand_images(call.messages))
        except Exception as error:  # noqa: BLE001 - whatever a function of the user's raises
            outcome = error
        return self._finish(call, outcome, begun)

    async def _ask_async(self, call: Call) -> Completion:
        begun = time.monotonic()
        try:
            outcome = await self.config.function(expand_images(call.messages))  # type: ignore[misc]  # async
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - as above
            outcome = error
        return self._finish(call, outcome, begun)

    def _finish(self, call: Call, outcome: object, begun: float) -> Completion:
        latency = time.monotonic() - begun
        dump = getattr(outcome, "model_dump", None)  # what provider libraries give
        said = self._read(dump() if callable(dump) else outcome, self.name)
        return replace(said, prompt=call.messages, latency=latency, attempts=1, source="live")

    def close(self) -> None:
        """End the event loop; twice does no harm."""
        if "_background" in self.__dict__:
            self._background.stop()

    @cached_property
    def _background(self) -> Background:
        from answerkey.models.client import Background

        return Background(f"answerkey-{self.name}")


@dataclass(frozen=True, eq=False)
class PackageModel(CodeModel):
    """A model of an installed package, which answers many questions at a time."""

    model: Model

    @property
    def most(self) -> int:
        """How many questions it is asked together."""
        return MOST_AT_ONCE

    def _infer(self, calls: Sequence[Call]) -> Iterable[tuple[Call, Completion]]:
        try:
            said = self.model.answer([call.question for call in calls if call.question is not None])
        except AnswerkeyError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a package's model raises
            said = [self._read(error, self.name)] * len(calls)
        if len(said) != len(calls):
            message = f"model `{self.name}` gave {len(said)} completions for {len(calls)} questions"
            raise SolverError("E306", message, hint="the package that brings the model must mend that")
        for call, one in zip(calls, said, strict=True):
            yield call, replace(one, prompt=call.messages, source=one.source or "live")

    def close(self) -> None:
        """Let go of what the model holds, if it does."""
        getattr(self.model, "close", lambda: None)()


#: Models whose answers go through the journal, and those of them of which nothing but the name is known.
Journaled = LiveModel | CodeModel
NamedOnly = FunctionModel | PackageModel
