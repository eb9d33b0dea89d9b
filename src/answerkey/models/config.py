"""Model configs: names, parameters, secrets, and the hosts that may receive keys.

This module has everything that other packages need when no model is called. Nothing is connected;
`connections.connect` makes a connection from a `ModelConfig`. The providers are in `names`.
"""

from __future__ import annotations

import inspect
import ipaddress
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeGuard, get_args
from urllib.parse import parse_qsl, urlencode, urlsplit

from answerkey.errors import (
    HIDDEN,
    HIDDEN_PARAMETER,
    Place,
    SpecError,
    is_url,
    listing,
    remember_secret,
    remember_url,
    suggest,
)
from answerkey.models.names import API_NAMES, PROVIDERS, ApiName
from answerkey.models.responses import Body, Fields
from answerkey.sandbox import Snippet
from answerkey.types import Completion, Request, SampleFacts

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

#: Whether the call cache is read, and written; see `cache.CallCache`.
CachePolicy = Literal["reuse", "update", "no-cache"]
#: The function of a snippet that is a model; that of the later era gets the messages in a mapping,
#: as an endpoint does.
INFERENCE_FUNCTION, LATER_INFERENCE_FUNCTION = "infer", "run_inference"
OPTIONS_HINT = (
    "give the scorer a field `options` (a template that yields the texts of the "
    "choices, in their order), "
    "or the dataset a column `options`"
)

# Secrets, and the hosts that may receive them.

#: Where a secret comes from: the field itself, the project (its `secrets`, its `.env`), or the
#: caller (the environment, a file outside the project, the Python call).
Origin = Literal["written", "project", "caller"]
#: A shorter key is not a secret ("none", "EMPTY"), and answers may well contain its letters.
SHORTEST_KEY = 6
#: The names of environment values that hold secrets; `MODEL_KEY` is not one of them.
SECRET_NAME = re.compile(
    r"((API|ACCESS|SECRET|AUTH|PRIVATE)_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$",
    re.IGNORECASE,
)
ALLOW_HOSTS = "ANSWERKEY_ALLOW_HOSTS"
AZURE_VERSION = "api-version"
_SECRET_QUERY = re.compile(HIDDEN_PARAMETER, re.IGNORECASE)
_ADDRESS_QUERY = re.compile(f"{AZURE_VERSION}|(?i:{HIDDEN_PARAMETER})")
#: Around an IPv6 address.
_BRACKETS = str.maketrans("", "", "[]")
_PORTS = {"http": 80, "https": 443}
_ODD = re.compile(r"[\s\\\x00-\x1f\x7f]")


class Secret:
    """A text that is shown as `***`; only `reveal` returns it.

    Secrets with the same text are equal, wherever they come from.
    """

    __slots__ = ("_text", "origin")

    def __init__(self, text: str, origin: Origin = "written") -> None:
        self._text = text
        self.origin: Origin = origin
        remember_secret(text)

    def reveal(self) -> str:
        """Return the text, for the one call that sends it."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return HIDDEN

    def __eq__(self, secret: object) -> bool:
        return isinstance(secret, Secret) and secret._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        raise TypeError("a secret must not be stored")


@dataclass(frozen=True)
class Address:
    """A URL, and whether the caller named its host (not a file of the project)."""

    url: str
    is_callers: bool = False


@dataclass(frozen=True)
class Caller:
    """What the caller provides: environment values, and hosts that may receive the caller's keys.

    `project_names` are environment values that come from a file of the project, not from the
    caller.
    """

    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    project_names: frozenset[str] = frozenset()
    allow_hosts: frozenset[str] = frozenset()

    @classmethod
    def of_process(cls, allow_hosts: Iterable[str] = ()) -> Self:
        """Return the caller of this process, with its environment."""
        environment = dict(os.environ)
        return cls(environment, allow_hosts=frozenset(allow_hosts))

    def find(self, name: str) -> str | None:
        """Return an environment value; a blank one counts as not set."""
        value = self.environment.get(name, "")
        return value.strip() or None

    def find_key(self, name: str) -> Secret | None:
        """Return the key in an environment value."""
        text = self.find(name)
        if text is None:
            return None
        if name in self.project_names:
            return Secret(text, "project")
        return Secret(text, "caller")

    def find_address(self, name: str) -> Address | None:
        """Return the URL in an environment value."""
        text = self.find(name)
        if text is None:
            return None
        return Address(text, is_callers=name not in self.project_names)

    def allows(self, url: str) -> bool:
        """Return whether the caller allows the host of a URL; hosts may be listed with a port or as
        URLs.
        """
        listed = ""
        if ALLOW_HOSTS not in self.project_names:
            listed = self.environment.get(ALLOW_HOSTS, "")
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme)
        host = normalise_host(parts.hostname or "")
        names = ",".join((*self.allow_hosts, listed))
        for name in names.translate(_BRACKETS).split(","):
            _, _, address = name.strip().rpartition("://")
            authority, _, _ = address.partition("/")
            if normalise_host(authority) in {host, f"{host}:{port}"}:
                return True
        return False


def normalise_host(host: str) -> str:
    """Return a host name in the form in which names are compared."""
    host = host.lower().rstrip(".")
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        return host


def is_loopback(url: str) -> bool:
    """Return whether a URL points to this machine: `localhost`, 127.0.0.0/8 or ::1."""
    host = normalise_host(urlsplit(url).hostname or "")
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    inner = getattr(address, "ipv4_mapped", None) or address
    return bool(inner.is_loopback)


def check_url(url: str, model: str) -> str:
    """Return the URL of a model if it can be called.

    Raises SpecError if it cannot, or if it contains a secret or a parameter.
    """
    remember_url(url)
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0
        is_whole = has_host and parts.scheme in _PORTS
    except ValueError:
        is_whole = False
        parts = urlsplit("")
    hint = "leave it out of the URL, and use `api_key` or `custom_headers`"
    if "@" in parts.netloc:
        raise SpecError(
            "E117", f"model `{model}`: the URL contains a user name or password", hint=hint
        )
    if not is_whole or "{" in parts.netloc or _ODD.search(url):
        shown = url.partition("?")[0]
        raise SpecError(
            "E108",
            f"model `{model}`: {shown!r} is not the URL of an endpoint",
            hint="write it as `http://127.0.0.1:8000/v1`",
        )
    for name, _ in parse_qsl(parts.query, keep_blank_values=True):
        if _SECRET_QUERY.fullmatch(name):
            raise SpecError(
                "E117", f"model `{model}`: the URL contains a secret, `{name}`", hint=hint
            )
        if name in GENERATION_PARAMETERS or name.startswith(EXTRA):
            raise SpecError(
                "E108",
                f"model `{model}`: `{name}` in the query of its URL does not reach the model",
                hint="write it under `generation` of the model file, or behind the model's "
                f"name: `?{name}=…`",
            )
    return url


# Parameters of built-in models and of generation.


@dataclass(frozen=True)
class ModelParameter:
    """A parameter after the `?` of a model name; its type is that of its default."""

    default: str | int | float | bool
    minimum: float = -inf
    maximum: float = inf
    allowed: tuple[str, ...] = ()

    def read(self, text: str) -> str | int | float | bool:
        """Return the value of a text; the ValueError of an invalid text says what is expected."""
        if isinstance(self.default, bool):
            if text not in {"true", "false"}:
                raise ValueError("`true` or `false`")
            return text == "true"
        if isinstance(self.default, str):
            if self.allowed and text not in self.allowed:
                raise ValueError(f"one of {listing(self.allowed)}")
            if not text:
                raise ValueError("a text that is not empty")
            return text
        try:
            number = type(self.default)(text)
            is_allowed = isfinite(number) and self.minimum <= number <= self.maximum
        except (ValueError, OverflowError):
            is_allowed = False
        if not is_allowed:
            raise ValueError(self._describe_number())
        return number

    def _describe_number(self) -> str:
        kind = "a whole number" if isinstance(self.default, int) else "a number"
        if self.minimum == -inf:
            return kind
        if self.maximum == inf:
            return f"{kind} from {self.minimum:g} on"
        return f"{kind} from {self.minimum:g} to {self.maximum:g}"


def split_query(name: str, query: str) -> dict[str, str]:
    """Return the parameters after the `?` of a model name.

    Raises SpecError E301 if one is given twice.
    """
    if not query:
        return {}
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True)
    except ValueError:
        raise SpecError(
            "E301",
            f"model `{name}`: {query!r} is not `parameter=value`",
            hint="write `NAME?parameter=value&parameter=value`",
        ) from None
    values = dict(pairs)
    if len(values) < len(pairs):
        raise SpecError("E301", f"model `{name}`: a parameter is given more than once")
    return values


def read_parameters(
    name: str,
    texts: Mapping[str, str],
    parameters: Mapping[str, ModelParameter],
    further_names: Iterable[str] = (),
) -> Body:
    """Return the values of the given parameters; raise SpecError E301 for unknown or invalid ones.

    `further_names` are valid parameters that were taken out before.
    """
    values: Body = {}
    for key, text in texts.items():
        if key not in parameters:
            names = (*parameters, *further_names)
            hint = suggest(key, names) or f"parameters: {listing(names)};"
            if not names:
                hint = "it has no parameters"
            if f"{EXTRA}NAME" in names:
                hint = f"{hint} `{EXTRA}{key}=` sends it as it is"
            hint = hint.removesuffix(";")
            raise SpecError("E301", f"model `{name}` has no parameter `{key}`", hint=hint)
        try:
            values[key] = parameters[key].read(text)
        except ValueError as error:
            message = f"model `{name}`: `{key}` is {text!r}, not {error}"
            near = suggest(text, parameters[key].allowed)
            raise SpecError("E301", message, hint=near) from None
    return values


#: How hard a model should think, in the words of all APIs; an endpoint knows some of them.
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max", "default"]
#: Whether thoughts are removed from the text of a reply, or stay in it.
Thinking = Literal["split", "keep"]
#: The prefix of parameters after `?` that are sent as they are.
EXTRA = "extra_body."
_SECRET_PARAMETER = re.compile(
    r"((api|access|secret|auth|private)[-_]?key|((api|access|auth|bearer)[-_]?)?token|(client[-_]?)?secret"
    r"|passw(or)?d|authorization|credentials?)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Generation:
    """The generation parameters; None leaves a parameter to the endpoint.

    `extra_body` are additional fields of the request body, sent as they are. `thinking` decides how
    the reply is read, and is not sent.
    """

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    echo: bool | None = None
    reasoning_effort: Effort | None = None
    thinking: Thinking | None = None
    extra_body: Fields | None = None

    def given(self) -> Body:
        """Return the parameters that are set, by name; `stop` as a list."""
        return dict(self._given)

    @cached_property
    def _given(self) -> Body:
        values = {name: value for name, value in vars(self).items() if value is not None}
        if self.stop is not None:
            values["stop"] = list(self.stop)
        return values

    def sent(self) -> Body:
        """Return the parameters that are set and have a name in the API."""
        sent = self.given()
        sent.pop("thinking", None)
        sent.pop("extra_body", None)
        return sent

    def over(self, farther: Self) -> Self:
        """Return `farther` overridden by the parameters set here; `extra_body` field by field."""
        set_here = {name: getattr(self, name) for name in self._given}
        if self.extra_body is not None and farther.extra_body is not None:
            set_here["extra_body"] = {**farther.extra_body, **self.extra_body}
        return replace(farther, **set_here)

    @property
    def wants_logprobs(self) -> bool:
        """Whether log-probabilities are requested, also by `top_logprobs` or `echo` alone."""
        if self.logprobs is not None:
            return self.logprobs
        return self.top_logprobs is not None or bool(self.echo)


GENERATION_PARAMETERS: dict[str, ModelParameter] = {
    "temperature": ModelParameter(0.0, minimum=0),
    "top_p": ModelParameter(0.0, minimum=0, maximum=1),
    "max_tokens": ModelParameter(0, minimum=1),
    "seed": ModelParameter(0),
    "stop": ModelParameter(""),
    "logprobs": ModelParameter(default=False),
    "top_logprobs": ModelParameter(0, minimum=0),
    "echo": ModelParameter(default=False),
    "reasoning_effort": ModelParameter("", allowed=get_args(Effort)),
    "thinking": ModelParameter("", allowed=get_args(Thinking)),
}


def nest(path: str, value: object) -> Body:
    """Return an object with the value at a path; dots separate the names."""
    name, dot, inner_path = path.partition(".")
    return {name: nest(inner_path, value) if dot else value}


def merge_bodies(first: Fields, second: Fields) -> Body:
    """Return two JSON objects as one; common objects are merged, else the second value wins."""
    merged = dict(first)
    for name, value in second.items():
        present = merged.get(name)
        if isinstance(present, Mapping) and isinstance(value, Mapping):
            merged[name] = merge_bodies(present, value)
        else:
            merged[name] = value
    return merged


def find_secret_name(body: object) -> str | None:
    """Return the first field name in a JSON value that sounds like a secret."""
    if isinstance(body, Mapping):
        for name, value in body.items():
            if _SECRET_PARAMETER.fullmatch(str(name)):
                return str(name)
            if secret_name := find_secret_name(value):
                return secret_name
    return None


def _read_extra(texts: Mapping[str, str]) -> Body | None:
    """Return the body for parameters `extra_body.NAME=VALUE`; dots separate names.

    A value that is not JSON is a text.
    """
    body: Body = {}
    for path, text in texts.items():
        try:
            value = json.loads(text, parse_constant=int)  # of NaN: no JSON
        except (ValueError, RecursionError):
            value = text
        name = path.removeprefix(EXTRA)
        body = merge_bodies(body, nest(name, value))
    return body or None


# Models, as files and names describe them.


@dataclass(frozen=True)
class Adapter:
    """The two templates of an adapter, as written."""

    key: str
    process_input: str
    process_output: str

    def parts(self) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
        """Return the field, the source and the visible names of each template."""
        return (
            ("process_input", self.process_input, ("input", "model_info", "kwargs")),
            ("process_output", self.process_output, ("body", "status_code")),
        )


@dataclass(frozen=True)
class ProviderConfig:
    """A model of a provider, or else of an OpenAI-compatible endpoint at `base_url`."""

    provider: str | None
    model: str
    api_key: Secret | None = None
    base_url: Address | None = None
    api: ApiName | None = None


@dataclass(frozen=True)
class CustomConfig:
    """A model behind a URL. Without an adapter it has the API `api`.

    `trusted_ca` are certificates (PEM text) that are trusted instead of the system's.
    """

    address: Address
    model: str | None = None
    api: ApiName = "chat"
    adapter: Adapter | None = None
    api_key: Secret | None = None
    headers: Mapping[str, Secret] = field(default_factory=dict)
    trusted_ca: str | None = None


@dataclass(frozen=True)
class InferenceConfig:
    """A model that is a Python snippet; `seconds` limits one call."""

    snippet: Snippet
    environment: Mapping[str, Secret] = field(default_factory=dict)
    seconds: float | None = None


@dataclass(frozen=True)
class FunctionConfig:
    """A model that is a function `(messages) -> reply`, or an object with `complete`.

    An async function runs in `loop`, or in an event loop of its own.
    """

    function: Any
    loop: AbstractEventLoop | None = None

    @property
    def is_async(self) -> bool:
        """Whether it is a coroutine function, or an object whose `__call__` is one."""
        method = getattr(self.function, "__call__", None)  # noqa: B004 - of an object
        is_coroutine = inspect.iscoroutinefunction
        return is_coroutine(self.function) or is_coroutine(method)

    @property
    def name(self) -> str:
        """The name of the function or object, or of its type."""
        own_name = getattr(self.function, "name", None)
        if isinstance(own_name, str):
            return own_name
        inner = getattr(self.function, "func", self.function)  # of a `functools.partial`
        type_name = type(inner).__qualname__
        name = str(getattr(inner, "__qualname__", type_name))
        return name.rpartition("<locals>.")[2].strip("<>")


@dataclass(frozen=True)
class ModelConfig:
    """A model that can be opened: its name, how it is reached, and on whose behalf.

    Without `config` it is only named and cannot be called.
    """

    name: str
    config: ProviderConfig | CustomConfig | InferenceConfig | FunctionConfig | None
    generation: Generation = field(default_factory=Generation)
    requests_per_minute: float | None = None
    max_concurrent: int | None = None
    caller: Caller = field(default_factory=Caller)
    place: Place | None = None

    @property
    def snippets(self) -> tuple[Snippet, ...]:
        """The user's code that the model would run."""
        if isinstance(self.config, InferenceConfig):
            return (self.config.snippet,)
        return ()


@dataclass(frozen=True)
class Price:
    """What one token costs, in the currency of the limit.

    `cached` is the price of a prompt token from the provider's cache, `written` that of one written
    to it; None means the ordinary price. A batch costs half.
    """

    prompt: float
    completion: float
    cached: float | None = None
    written: float | None = None


class Model(Protocol):
    """Something that answers; `is_simulated` marks every summary and report."""

    @property
    def name(self) -> str:
        """The name as the user wrote it."""

    @property
    def is_simulated(self) -> bool:
        """Whether the completions are made up from the answer key."""

    def complete(self, requests: Sequence[Request]) -> list[Completion]:
        """Return one completion for each request, in order."""


class RankingModel(Model, Protocol):
    """A model that can also rate continuations."""

    def loglikelihoods(
        self, requests: Sequence[Request], continuations: Sequence[Sequence[str]]
    ) -> list[Completion]:
        """Return a completion for each request, whose `logprobs` rank its continuations."""


def has_loglikelihoods(model: Model | None) -> TypeGuard[RankingModel]:
    """Return whether a model can rate continuations."""
    return bool(getattr(model, "has_loglikelihoods", False))


def read_model(
    model: object,
    loop: AbstractEventLoop | None = None,
) -> str | ModelConfig | None:
    """Return what the caller passed as a model: a name unchanged, code as a config."""
    if isinstance(model, str | ModelConfig | None):
        return model
    if isinstance(model, type):
        name = model.__name__
        message = f"`model` is the class `{name}`, not an object"
        raise SpecError("E301", message, hint=f"write `model={name}()`")
    if callable(model) or hasattr(model, "complete"):
        config = FunctionConfig(model, loop)
        return ModelConfig(config.name, config)
    message = f"`model` is of type `{type(model).__name__}`, which has no `complete`"
    hint = "give a name, a function of the messages, or an object with `complete(requests)`"
    raise SpecError("E301", message, hint=hint)


def missing_facts(model: Model, knowledge: SampleFacts | None) -> frozenset[str]:
    """Return the facts that the model needs about every sample and nobody provides.

    Option texts are not among them, because they may also come from the dataset.
    """
    needs: frozenset[str] = getattr(model, "needs", frozenset())
    if knowledge is not None:
        return frozenset()
    return needs - {"options"}


def sees_samples(model: Model | None) -> bool:
    """Return whether a model may see samples besides the messages.

    A model behind an endpoint does not, unless its replies are constrained to the choices.
    """
    return bool(getattr(model, "sees_samples", True))


def is_live(name: str) -> bool:
    """Return whether a name is that of a provider's model, or the URL of an endpoint."""
    provider, slash, _ = name.partition("/")
    return is_url(name) or (bool(slash) and provider in PROVIDERS)


def read_name(
    name: str,
    *,
    caller: Caller,
    is_callers: bool,
    place: Place | None = None,
) -> ModelConfig:
    """Return the model config for a live name; raise SpecError E301 for an incomplete name.

    `is_callers` means that the caller wrote the name, not a file of the project.
    """
    remember_url(name)
    allowed = ["api", f"{EXTRA}NAME"]
    provider = None
    if is_url(name):
        base, query, model = _split_url_name(name)
        allowed.append(AZURE_VERSION)
    else:
        provider, model, query = _split_provider_name(name)
    extra: dict[str, str] = {}
    address: dict[str, str] = {}
    parameters: dict[str, str] = {}
    for key, text in split_query(name, query).items():
        holder = parameters
        if key.startswith(EXTRA):
            holder = extra
        elif provider is None and _ADDRESS_QUERY.fullmatch(key):
            # Parameters of the address stay in it; a secret too, which is refused when the address
            # is checked.
            holder = address
        holder[key] = text
    api = _read_api(name, parameters.pop("api", None))
    values = read_parameters(name, parameters, GENERATION_PARAMETERS, allowed)
    if "stop" in values:
        values["stop"] = (values["stop"],)
    generation = Generation(**values, extra_body=_read_extra(extra))  # type: ignore[arg-type]  # each has its field's type
    config = ProviderConfig(provider, model, api=api)
    if provider is None:
        if address:
            base = f"{base}?{urlencode(address)}"
        config = replace(config, base_url=Address(base, is_callers))
    return ModelConfig(name, config, generation, caller=caller, place=place)


def _split_url_name(name: str) -> tuple[str, str, str]:
    """Return the base URL, the query and the model of a name such as `http://HOST/v1?a=b#NAME`."""
    address, _, model = name.partition("#")
    start, _, query = address.partition("?")
    if not model or "?" in model:
        hint = f"add the model's name after `#`: `{start}#NAME`"
        raise SpecError("E301", f"model `{name}` names no model at that address", hint=hint)
    scheme, _, host = start.partition("://")
    return f"{scheme.lower()}://{host}", query, model


def _split_provider_name(name: str) -> tuple[str, str, str]:
    """Return the provider, the model and the query of a name such as `openai/NAME?a=b`."""
    start, _, query = name.partition("?")
    provider, _, model = start.partition("/")
    if not model:
        raise SpecError(
            "E301", f"unknown model `{name}`", hint=f"add the model's name: `{provider}/NAME`"
        )
    return provider, model, query


def _read_api(name: str, text: str | None) -> ApiName | None:
    for api in API_NAMES:
        if api == text:
            return api
    if text is None:
        return None
    raise SpecError(
        "E301",
        f"model `{name}`: unknown API {text!r}",
        hint=suggest(text, API_NAMES) or f"APIs: {listing(API_NAMES)}",
    )
