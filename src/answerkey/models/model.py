"""Finds the model for a name, and runs the kinds that are not built in: endpoints, snippets,
functions, and models of packages.

Nothing that calls an endpoint is imported before a model is called.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from hashlib import sha256
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeGuard
from urllib.parse import urlsplit

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
from answerkey.models.builtin import BUILTIN_MODELS
from answerkey.models.calls import (
    Answers,
    Call,
    Calls,
    CallSettings,
    Finished,
    call_key,
    complete_calls,
    save_calls,
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
    read_name,
    read_parameters,
    split_query,
)
from answerkey.models.images import expand_images
from answerkey.models.logprobs import Ranker, rank_continuations
from answerkey.models.names import PROVIDERS, complete_name, unknown_provider_hint
from answerkey.models.responses import REPLY_KEYS, Fields, fail, read_message, split_reasoning
from answerkey.sandbox import Snippet, SnippetError, SnippetProcess
from answerkey.types import Completion, CompletionStatus, Request

if TYPE_CHECKING:
    from answerkey.models.client import Background, ModelClient
    from answerkey.models.providers import Connection
    from answerkey.models.store import CallStore

#: The time limit of one call of a snippet: a local model may think for a while.
CALL_SECONDS = 120.0
#: How many calls of a snippet, or of each thread of a function, are made before they are stored.
CALLS_PER_WRITE = 16
#: How many questions a package's model gets at a time, and the most calls that are made before they
#: are stored.
MAX_REQUESTS = 1_000
#: If this many calls all fail, the code does not work.
MAX_FIRST_FAILURES = 50
PREFIX = "builtin"
Outcomes = Iterable[tuple[Call, Completion]]


def open_model(model: str | ModelConfig, *, caller: Caller | None = None) -> Model:
    """Return the model with this name or config; nothing is called yet.

    A name is `builtin/…`, `provider/model`, `http://host/v1#model`, or starts with the prefix of an
    installed package; the provider may be left out of well-known names such as `gpt-4.1-nano`.
    `caller` provides the keys for a name, by default from the environment of this process.
    """
    if isinstance(model, str):
        model = complete_name(model)
        if not is_live(model):
            return _open_named(model)
        caller = caller or Caller.of_process()
        model = read_name(model, caller=caller, is_callers=True)
    config = model.config
    if isinstance(config, InferenceConfig):
        seconds = config.seconds or CALL_SECONDS
        return SnippetModel(
            model.name,
            config.snippet,
            config.environment,
            seconds,
        )
    if isinstance(config, FunctionConfig):
        return replace(_open_code(model.name, config), is_function=True)
    from answerkey.models.connections import connect

    return LiveModel(connect(model))


def _open_named(name: str) -> Model:
    """Return a built-in model, or one of an installed package."""
    prefix, slash, kind_and_query = name.partition("/")
    kind, _, query = kind_and_query.partition("?")
    if slash and prefix == PREFIX and kind in BUILTIN_MODELS:
        builtin = BUILTIN_MODELS[kind]
        defaults = {key: parameter.default for key, parameter in builtin.parameters.items()}
        texts = split_query(name, query)
        values = read_parameters(name, texts, builtin.parameters)
        return replace(builtin, name=name, values={**defaults, **values})
    if slash and prefix != PREFIX:
        for plugin in entry_points(group="answerkey.models"):
            if plugin.name == prefix:
                return _open_plugin(name, plugin)
    raise SpecError("E301", f"unknown model `{name}`", hint=suggest_model(name))


def _open_plugin(name: str, plugin: EntryPoint) -> Model:
    """Return a model of an installed package."""
    try:
        load = plugin.load()
    except (ImportError, AttributeError) as error:
        raise SpecError(
            "E301",
            f"model `{name}`: the package that adds `{plugin.name}/…` cannot be loaded: {error}",
            hint=f"install `{plugin.value}` again, or remove it",
        ) from error
    return _open_code(name, FunctionConfig(load(name)))


def _open_code(name: str, config: FunctionConfig) -> CodeModel:
    """Return a model that calls a function, or an object with `complete`."""
    code = config.function
    if not hasattr(code, "complete"):
        return FunctionModel(name, config)
    return ObjectModel(
        name,
        code,
        is_simulated=getattr(code, "is_simulated", False),
        needs=getattr(code, "needs", frozenset()),
    )


def suggest_model(name: str) -> str:
    """Return a hint for an unknown model name: what was probably meant."""
    prefix, slash, model = name.partition("/")
    is_builtin = suggest(prefix, [PREFIX]) is not None
    if is_builtin or not slash:
        kind = model if slash else name
        near = suggest(kind.partition("?")[0], BUILTIN_MODELS)
        if near is not None:
            return near.replace("`", f"`{PREFIX}/", 1)
    if is_builtin or not name:
        kinds = [f"{PREFIX}/{kind}" for kind in BUILTIN_MODELS]
        return f"built-in models: {listing(kinds)}"
    host, _, port = name.partition(":")
    if port and host in PROVIDERS:
        return f"write `{host}/{port}`"
    if port[:4].isdecimal():
        return f"write the address with a model: `http://{name}/v1#NAME`"
    if slash:
        # With a lower cutoff, the owners of models on the hub, such as `meta-llama/…`, would match
        # providers.
        providers = get_close_matches(
            prefix,
            PROVIDERS,
            n=1,
            cutoff=0.8,
        )
        if providers:
            return f"did you mean `{providers[0]}/{model}`?"
    return unknown_provider_hint(name)


def build_calls(
    model: Journaled,
    questions: Sequence[Request],
    trial: int,
    purpose: str = "solve",
) -> list[Call]:
    """Return a call for each question; the same question to the same model has the same key.

    `trial` is added to the questions' own trials. A package's model also sees the sample, so its
    answers to equal messages may differ.
    """
    is_cached = is_identified(model)
    calls = []
    for question in questions:
        number = question.trial + trial
        messages = question.messages
        keyed = messages
        whole = None
        if model.sees_samples:
            keyed = [*messages, {"sample_id": question.sample_id}]
            expanded = expand_images(messages)
            whole = replace(question, trial=number, messages=expanded)
        key = call_key(model.identity, keyed, number)
        call = Call(
            key,
            question.sample_id,
            number,
            messages,
            purpose,
            is_cached,
            whole,
        )
        calls.append(call)
    return calls


@dataclass(frozen=True, eq=False)
class LiveModel(CallSettings):
    """A model that is called over the network; a context manager that keeps connections open.

    It reuses answers as long as its ledger has them. With `batches`, the store that records
    submitted batches, calls are sent in batches instead of one by one.
    """

    connection: Connection
    batches: CallStore | None = None
    is_simulated: ClassVar[bool] = False
    #: Whether it sees samples besides the messages.
    sees_samples: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """The name as the user wrote it."""
        return self.connection.name

    @property
    def identity(self) -> str:
        """A hash of everything that determines the answers; it contains no secret."""
        return self.connection.identity

    @property
    def has_loglikelihoods(self) -> bool:
        """Whether it echoes a text with the log-probabilities of its tokens."""
        return bool(self.connection.generation.echo)

    def explain_missing_logprobs(self) -> str | None:
        """Return why no alternatives with log-probabilities will come; None if they will."""
        generation = self.connection.generation
        if not generation.wants_logprobs:
            return f"model `{self.name}` is not asked for them"
        if not generation.top_logprobs:
            return f"model `{self.name}` is not asked for alternatives: `top_logprobs` is not set"
        return None

    def with_schema(self, schema: Fields) -> LiveModel | None:
        """Return the same model with replies constrained to a JSON Schema; None if its API cannot
        do that.
        """
        if not self.connection.api.schema_name:
            return None
        connection = replace(self.connection, schema=schema)
        return replace(self, connection=connection)

    def require_ready(self) -> None:
        """Raise SpecError E117 if a key is missing, or would pass through a proxy without TLS."""
        from answerkey.models.proxy import find_proxy_for_key

        connection = self.connection
        connection.require_key()
        find_proxy_for_key(connection.url, self.name, has_key=connection.has_secret)

    def complete(
        self,
        requests: Sequence[Request],
        *,
        trial: int = 0,
        purpose: str = "solve",
    ) -> list[Completion]:
        """Return one completion for each request, in order; what the ledger has is not sent."""
        calls = build_calls(
            self,
            requests,
            trial,
            purpose,
        )
        return self._client.complete(calls)

    def loglikelihoods(
        self, requests: Sequence[Request], continuations: Sequence[Sequence[str]]
    ) -> list[Completion]:
        """Return a completion for each request, with the log-probabilities of its continuations."""
        return rank_continuations(requests, continuations, self.complete)

    @property
    def is_unusable(self) -> bool:
        """Whether the endpoint has been given up and is not called again."""
        return "_client" in self.__dict__ and self._client.reason is not None

    def close(self) -> None:
        """Close the connections; calling it twice is harmless."""
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
        from answerkey.models.client import ModelClient

        return ModelClient(self.connection, self)


@dataclass(frozen=True, eq=False)
class CodeModel(CallSettings, ABC):
    """A model that is the user's code; its calls are made, and stored, in groups."""

    name: str
    is_simulated: bool = field(default=False, kw_only=True)
    needs: frozenset[str] = field(default=frozenset(), kw_only=True)
    #: Whether the caller passed the code itself; no name finds it again.
    is_function: bool = field(default=False, kw_only=True)
    #: Whether it sees samples besides the messages.
    sees_samples: ClassVar[bool] = False

    @property
    def identity(self) -> str:
        """A hash of the name: what else determines the answers of code is unknown."""
        return sha256(f"{type(self).__name__}\0{self.name}".encode()).hexdigest()

    @property
    def max_open_calls(self) -> int:
        """The maximum number of open calls."""
        return 1

    def complete(
        self,
        requests: Sequence[Request],
        *,
        trial: int = 0,
        purpose: str = "solve",
    ) -> list[Completion]:
        """Return one completion for each request, in order; what the ledger has is not sent.

        A call that fails has the status ERROR.
        """
        calls = build_calls(
            self,
            requests,
            trial,
            purpose,
        )
        stored = self.ledger.find(calls)
        return complete_calls(
            calls,
            stored,
            self._send,
            self.watch,
        )

    def _send(self, calls: Calls) -> Answers:
        answered = {}
        size = min(MAX_REQUESTS, CALLS_PER_WRITE * self.max_open_calls)
        for start in range(0, len(calls), size):
            allowed = []
            limit = None
            try:
                for call in calls[start : start + size]:
                    self.budget.reserve(0.0)
                    allowed.append(call)
            except SolverError as error:
                limit = error
            finished = list[tuple[Call, Completion]]()
            try:
                finished.extend(self._infer(allowed))
            finally:  # also after an interrupt
                save_calls(self.ledger, finished)
            for call, completion in finished:
                answered[call.key] = completion
                self.watch(Finished(call, completion))
            if limit is not None:
                raise limit
            self._require_success(answered)
        return answered

    def _require_success(self, answered: Answers) -> None:
        """Raise SolverError E306 if all of the first calls have failed, and there are enough of
        them.
        """
        errors = [completion.error for completion in answered.values()]
        if len(errors) >= MAX_FIRST_FAILURES and all(errors):
            raise SolverError(
                "E306",
                f"the first {len(errors)} calls of `{self.name}` all failed; {errors[-1]}",
                hint="`answerkey resume` makes the failed calls again",
            )

    @abstractmethod
    def _infer(self, calls: Calls) -> Outcomes:
        """Yield the calls, in any order, with their completions."""

    def close(self) -> None:
        """Release what the code runs in; calling it twice is harmless."""

    def _read(self, outcome: object, function: str) -> Completion:
        """Return the completion for what the code returned or raised.

        It may return a text, a message or a whole chat completion; anything else is an error of the
        call. A message may lack a text, as those of endpoints may.
        """
        if isinstance(outcome, BaseException):
            reason = f"{type(outcome).__name__}: {outcome}"
            return fail(hide_secrets(reason.removesuffix(": ")))
        completion = split_reasoning(read_message(outcome))
        is_message = isinstance(outcome, Mapping) and not REPLY_KEYS.isdisjoint(outcome)
        is_empty = completion.status is CompletionStatus.NO_TEXT and not is_message
        if outcome is None:
            return fail(f"`{function}` returned None, not a text or a message")
        if is_empty or isinstance(outcome, int | float):
            kind = type(outcome).__name__
            return fail(f"`{function}` returned a value of type `{kind}`, not a text or a message")
        return completion


@dataclass(frozen=True, eq=False)
class SnippetModel(CodeModel):
    """Answers with `infer(messages)` or `infer(messages, environment)` of a snippet.

    `run_inference` of the later era gets `{"messages": …}` instead. Whoever opens the model has
    made sure that the snippet is trusted.
    """

    snippet: Snippet
    environment: Mapping[str, Secret] = field(default_factory=dict)
    seconds: float = CALL_SECONDS

    @property
    def identity(self) -> str:
        """A hash of the snippet."""
        return sha256(f"inference\0{self.snippet.digest}".encode()).hexdigest()

    def close(self) -> None:
        """End the process; calling it twice is harmless."""
        self._process.close()

    @cached_property
    def _process(self) -> SnippetProcess:
        return SnippetProcess(self.snippet, seconds=self.seconds)

    def _infer(self, calls: Calls) -> Outcomes:
        try:
            arguments = map(self._list_arguments, calls)
            outcomes = self._process.call_all(arguments)
            for call, outcome in zip(calls, outcomes, strict=True):
                if isinstance(outcome, SnippetError):
                    completion = fail(self._hide(str(outcome)))
                else:
                    shown = self._hide_keys(outcome)
                    completion = self._read(shown, self.snippet.function)
                yield call, completion.with_fields(prompt=call.messages, source="live")
                raise_if_interrupted()
        except SnippetError as problem:
            why = self._hide(str(problem))
            raise SolverError(
                "E306",
                f"model `{self.name}`: its snippet cannot be loaded: {why}",
                where=self.snippet.place,
            ) from None

    def _list_arguments(self, call: Call) -> list[object]:
        shown: object = expand_images(call.messages)
        if self.snippet.function == LATER_INFERENCE_FUNCTION:
            shown = {"messages": shown}
        environment = {}
        for name, secret in self.environment.items():
            environment[name] = secret.reveal()
        return [shown, environment]

    def _hide_keys(self, value: object) -> object:
        """Return a snippet's value without the keys that it got.

        Its other environment values are not secrets.
        """
        if isinstance(value, Mapping):
            return {name: self._hide_keys(entry) for name, entry in value.items()}
        if isinstance(value, list):
            return [self._hide_keys(entry) for entry in value]
        if isinstance(value, str):
            for name, secret in self.environment.items():
                text = secret.reveal()
                if SECRET_NAME.search(name) and len(text) >= SHORTEST_KEY:
                    value = value.replace(text, HIDDEN)
        return value

    def _hide(self, text: str) -> str:
        """Return a text without any environment value of the snippet, however short."""
        for secret in self.environment.values():
            if secret:
                text = text.replace(secret.reveal(), HIDDEN)
        return text


@dataclass(frozen=True, eq=False)
class FunctionModel(CodeModel):
    """Answers with the caller's function of the messages; what it raises is the call's error.

    A plain function is called here, one call at a time, or in threads if the caller allows more. An
    async function is awaited in an event loop.
    """

    config: FunctionConfig

    @property
    def max_open_calls(self) -> int:
        """The maximum number of open calls."""
        if self.limits.max_open:
            return self.limits.max_open
        if self.config.is_async:
            return self.limits.max_concurrent
        return 1

    def _infer(self, calls: Calls) -> Outcomes:
        from answerkey.models.client import GRACE_SECONDS, SIGNAL_SECONDS, report_stop

        if self.max_open_calls == 1:
            for call in calls:
                yield call, self._ask(call)
                raise_if_interrupted()
            return
        pool = ThreadPoolExecutor(self.max_open_calls, thread_name_prefix=f"answerkey-{self.name}")
        under_way = {pool.submit(self._ask, call): call for call in calls}
        try:
            while under_way:
                done, _ = wait(under_way, timeout=SIGNAL_SECONDS, return_when=FIRST_COMPLETED)
                raise_if_interrupted()
                for future in done:
                    yield under_way.pop(future), future.result()
        except KeyboardInterrupt:
            # Open calls are paid for.
            running = [future for future in under_way if not future.cancel()]
            report_stop(len(running))
            for future in wait(running, timeout=GRACE_SECONDS).done:
                yield under_way[future], future.result()
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _ask(self, call: Call) -> Completion:
        begun = time.monotonic()
        outcome: Any
        try:
            outcome = self.config.function(expand_images(call.messages))
            if inspect.iscoroutine(outcome):
                outcome = self._start(outcome).result()
        except (Exception, CancelledError) as error:  # noqa: BLE001 - whatever a function of the user's raises
            outcome = error
        latency = time.monotonic() - begun
        if hasattr(outcome, "model_dump"):  # what provider libraries give
            outcome = outcome.model_dump()
        completion = self._read(outcome, self.name)
        return completion.with_fields(
            prompt=call.messages,
            latency=latency,
            attempts=1,
            source="live",
        )

    def _start(self, work: Coroutine[Any, Any, object]) -> Future[object]:
        if self.config.loop is not None:
            return asyncio.run_coroutine_threadsafe(work, self.config.loop)
        return self._background.submit(work)

    def close(self) -> None:
        """End the event loop; calling it twice is harmless."""
        if "_background" in self.__dict__:
            self._background.stop()

    @cached_property
    def _background(self) -> Background:
        from answerkey.models.client import Background

        return Background(f"answerkey-{self.name}")


@dataclass(frozen=True, eq=False)
class ObjectModel(CodeModel):
    """An object with `complete`, of the caller or of a package, which answers many requests at a
    time.
    """

    model: Any
    sees_samples: ClassVar[bool] = True

    @property
    def max_open_calls(self) -> int:
        """How many questions it gets at a time."""
        return MAX_REQUESTS

    @property
    def has_loglikelihoods(self) -> bool:
        """Whether it can rate continuations."""
        return hasattr(self.model, "loglikelihoods")

    def loglikelihoods(
        self, requests: Sequence[Request], continuations: Sequence[Sequence[str]]
    ) -> list[Completion]:
        """Return a completion for each request, with the log-probabilities of its continuations."""
        ranker = replace(self, model=Ranker(self.model))
        return rank_continuations(requests, continuations, ranker.complete)

    def _infer(self, calls: Calls) -> Outcomes:
        questions = [call.question for call in calls if call.question is not None]
        try:
            completions = self.model.complete(questions)
        except AnswerkeyError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a package's model raises
            failure = self._read(error, self.name)
            completions = [failure] * len(calls)
        if len(completions) != len(calls):
            raise SolverError(
                "E306",
                f"model `{self.name}` returned {len(completions)} completions for {len(calls)} "
                "questions",
                hint="`complete` must return one completion for each request",
            )
        for call, outcome in zip(calls, completions, strict=True):
            completion = outcome
            if not isinstance(outcome, Completion):
                completion = self._read(outcome, self.name)
            source = completion.source or "live"
            yield call, completion.with_fields(prompt=call.messages, source=source)

    def close(self) -> None:
        """Release what a package's model holds, if anything; the caller's own object stays open."""
        if not self.is_function:
            getattr(self.model, "close", lambda: None)()


#: The models whose answers are stored in the journal.
Journaled = LiveModel | CodeModel


def calls_endpoint(model: object) -> TypeGuard[LiveModel]:
    """Return whether a model is called over the network."""
    return isinstance(model, LiveModel)


def stores_calls(model: object) -> TypeGuard[Journaled]:
    """Return whether the answers of a model are stored in the journal."""
    return isinstance(model, Journaled)


def is_identified(model: object) -> TypeGuard[LiveModel | SnippetModel]:
    """Return whether answers are stored, and everything that determines them is known."""
    return isinstance(model, LiveModel | SnippetModel)


def find_account(model: Model) -> tuple[str, str | None]:
    """Return whose limits apply to the calls of a model: an endpoint's host and key, or a name."""
    if not calls_endpoint(model):
        return model.name, None
    key = model.connection.key
    host = urlsplit(model.connection.url).netloc
    return host, None if key is None else key.reveal()
