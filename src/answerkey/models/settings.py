"""What decides who may be asked and how: secrets, hosts and addresses, generation, parameters of names.

A key of the caller goes to the provider's own host, to a host that the caller named, and to this machine. A
host that a project file names for it is refused until the caller allows it: a file from elsewhere must not be
able to collect keys.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from math import inf
from typing import Literal, Self
from urllib.parse import SplitResult, parse_qsl, urlsplit

from answerkey.errors import (
    HIDDEN,
    HIDDEN_PARAMETER,
    SpecError,
    listing,
    remember_secret,
    remember_url,
    suggest,
)

#: Where a secret comes from: written in the very field, kept by the project (its `secrets`, its `.env`), or
#: the caller's own (environment, a file outside the project, the Python call).
Origin = Literal["written", "project", "caller"]
#: A shorter key is no secret ("none", "EMPTY"), and its letters may well be in an answer.
SHORTEST_KEY = 6
#: What a name that holds a secret looks like; `MODEL_KEY` is none.
SECRET_NAME = re.compile(
    r"((API|ACCESS|SECRET|AUTH|PRIVATE)_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE
)


class Secret:
    """A text that shows itself as `***`; only `reveal` gives it away.

    Secrets with the same text are equal, wherever they come from.
    """

    __slots__ = ("_text", "origin")

    def __init__(self, text: str, origin: Origin = "written") -> None:
        self._text = text
        self.origin: Origin = origin
        remember_secret(text)

    def reveal(self) -> str:
        """Return the text itself, for the one call that sends it."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        raise TypeError("a secret is not stored")


@dataclass(frozen=True)
class Parameter:
    """One parameter of a built-in model: a text, a whole number, a number, or one of some words."""

    default: str | int | float
    meaning: str
    minimum: float | None = None
    maximum: float | None = None
    allowed: tuple[str, ...] = ()

    def read(self, text: str) -> str | int | float:
        """Return the value of a text; ValueError says what is expected."""
        if self.allowed and text not in self.allowed:
            is_yes_or_no = self.allowed == ("true", "false")
            raise ValueError("`true` or `false`" if is_yes_or_no else f"one of {listing(self.allowed)}")
        if isinstance(self.default, str):
            if not text:
                raise ValueError("a text that is not empty")
            return text
        wanted = "a whole number" if isinstance(self.default, int) else "a number"
        if self.minimum is not None:
            wanted += f" from {self.minimum:g} " + ("on" if self.maximum is None else f"to {self.maximum:g}")
        try:
            number = type(self.default)(text)
        except ValueError:
            raise ValueError(wanted) from None
        low = -inf if self.minimum is None else self.minimum
        high = inf if self.maximum is None else self.maximum
        if not low <= number <= high or number == inf:
            raise ValueError(wanted)
        return number


def read_query(name: str, query: str, parameters: Mapping[str, Parameter]) -> dict[str, str | int | float]:
    """Return the value of every parameter, given or default; SpecError E301 for anything else."""
    values = {key: parameter.default for key, parameter in parameters.items()}
    for key, text in split_query(name, query):
        parameter = parameters.get(key)
        if parameter is None:
            raise _refuse_key(name, key, parameters)
        try:
            values[key] = parameter.read(text)
        except ValueError as error:
            near = suggest(text, parameter.allowed)
            raise SpecError("E301", f"model `{name}`: `{key}` is {text!r}, not {error}", hint=near) from None
    return values


def split_query(name: str, query: str) -> list[tuple[str, str]]:
    """Return what stands behind `?` in a model's name; SpecError E301 for a name that is there twice."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    except ValueError:
        hint = "write `NAME?parameter=value&parameter=value`"
        raise SpecError("E301", f"model `{name}`: {query!r} is not `parameter=value`", hint=hint) from None
    keys = [key for key, _ in pairs]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise SpecError("E301", f"model `{name}`: given more than once: {listing(twice)}")
    return pairs


def _refuse_key(name: str, key: str, known: Iterable[str]) -> SpecError:
    known = list(known)
    words = f"parameters: {listing(known)}" if known else "it has no parameters"
    return SpecError("E301", f"model `{name}` has no parameter `{key}`", hint=suggest(key, known) or words)


ALLOW_HOSTS = "ANSWERKEY_ALLOW_HOSTS"
#: Stands for the host where whoever asks is a node of a cluster: the endpoint is on the node itself.
NODE_IP = "{node_ip}"
_SECRET_QUERY = re.compile(HIDDEN_PARAMETER, re.IGNORECASE)
_ODD = re.compile(r"[\s\\\x00-\x1f\x7f]")


@dataclass(frozen=True)
class Generation:
    """What is sent beside the messages; None leaves it to the endpoint."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    echo: bool | None = None

    def given(self) -> dict[str, object]:
        """Return what is set, by name; what is listed for `stop` is a list."""
        return dict(self._given)

    @cached_property
    def _given(self) -> dict[str, object]:
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name in _NAMES
            if (value := getattr(self, name)) is not None
        }

    def over(self, other: Self) -> Self:
        """Return `other` with what is set here in its place."""
        return replace(other, **{name: getattr(self, name) for name in self.given()})

    @property
    def wants_logprobs(self) -> bool:
        """Whether log probabilities are asked for; `top_logprobs` or `echo` alone ask for them too."""
        is_implied = self.top_logprobs is not None or bool(self.echo)
        return bool(self.logprobs) or (self.logprobs is None and is_implied)


_NAMES = tuple(one.name for one in fields(Generation))


def read_generation(name: str, given: dict[str, str], others: tuple[str, ...] = ("api",)) -> Generation:
    """Return the generation that a model's name states behind `?`; SpecError E301 for anything else.

    `others` are parameters that may stand there, too, and were taken out before.
    """
    values: dict[str, object] = {}
    for key, text in given.items():
        if key not in READERS:
            known = (*READERS, *others)
            hint = suggest(key, known) or f"parameters: {listing(known)}"
            raise SpecError("E301", f"model `{name}` has no parameter `{key}`", hint=hint)
        try:
            value = READERS[key].read(text)
        except ValueError as error:
            raise SpecError("E301", f"model `{name}`: `{key}` is {text!r}, not {error}") from None
        values[key] = text == "true" if READERS[key].allowed else (value,) if key == "stop" else value
    return Generation(**values)  # type: ignore[arg-type]  # each reader gives the type of its field


#: What each parameter must be.
READERS: dict[str, Parameter] = {
    "temperature": Parameter(0.0, "how freely it is drawn", minimum=0),
    "top_p": Parameter(0.0, "from which share of likely tokens", minimum=0, maximum=1),
    "max_tokens": Parameter(0, "how long an answer may be", minimum=1),
    "seed": Parameter(0, "another seed, other draws"),
    "stop": Parameter("", "where an answer ends"),
    "logprobs": Parameter("", "log-probabilities of tokens", allowed=("true", "false")),
    "top_logprobs": Parameter(0, "how many alternatives of each token", minimum=0),
    "echo": Parameter("", "repeat the prompt", allowed=("true", "false")),
}


@dataclass(frozen=True)
class Address:
    """A URL, and whether the caller named its host (not a file of the project)."""

    url: str
    is_callers: bool = False


@dataclass(frozen=True)
class Caller:
    """What the caller brings: environment values, and hosts that may have the caller's keys.

    `project_names` are those values that stand in a file of the project: they are not the caller's word.
    """

    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    project_names: frozenset[str] = frozenset()
    allow_hosts: frozenset[str] = frozenset()

    @classmethod
    def of_process(cls, allow_hosts: Iterable[str] = ()) -> Self:
        """Return the caller of this process, with its environment."""
        return cls(dict(os.environ), allow_hosts=frozenset(allow_hosts))

    def find(self, name: str) -> str | None:
        """Return an environment value; one that is blank counts as not set."""
        return self.environment.get(name, "").strip() or None

    def find_key(self, name: str) -> Secret | None:
        """Return the key that an environment value holds."""
        text = self.find(name)
        return None if text is None else Secret(text, "project" if name in self.project_names else "caller")

    def says(self, name: str) -> bool:
        """Return whether an environment value is set by the caller, not by a file of the project."""
        return self.find(name) is not None and name not in self.project_names

    def allows(self, url: str) -> bool:
        """Return whether the caller allows a URL's host, named alone or with its port."""
        parts = urlsplit(url)
        host = tidy_host(parts.hostname or "")
        return not {host, f"{host}:{find_port(parts)}"}.isdisjoint(self._allowed)

    @cached_property
    def _allowed(self) -> frozenset[str]:
        stated = self.find(ALLOW_HOSTS) if self.says(ALLOW_HOSTS) else None
        return frozenset(_tidy_allowed(one) for one in (*self.allow_hosts, *(stated or "").split(",")))


def _tidy_allowed(text: str) -> str:
    """Return what `--allow-host` names as host, or host and port; a whole URL is understood too."""
    text = text.strip()
    try:
        parts = urlsplit(text if "://" in text else f"//{text}")
        host, port = tidy_host(parts.hostname or ""), parts.port
    except ValueError:
        return tidy_host(text)
    return host if port is None else f"{host}:{port}"


def tidy_host(host: str) -> str:
    """Return a host's name in the one form that names are compared in."""
    host = host.lower().rstrip(".")
    try:
        return host.encode("idna").decode() if not host.isascii() else host
    except UnicodeError:
        return host


def find_port(parts: SplitResult) -> int:
    """Return the port of a URL, stated or usual."""
    return parts.port or (443 if parts.scheme == "https" else 80)


def is_loopback(url: str) -> bool:
    """Return whether a URL leads to this machine: `localhost`, 127.0.0.0/8 or ::1."""
    host = tidy_host(urlsplit(url).hostname or "")
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    inner = getattr(address, "ipv4_mapped", None) or address
    return bool(inner.is_loopback)


def check_url(url: str, model: str) -> str:
    """Return a URL that can be asked; SpecError for one that cannot, or holds a secret or a parameter."""
    remember_url(url)
    shown = url.partition("?")[0]
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_whole = False
        parts = urlsplit("")
    if "@" in parts.netloc:
        hint = "leave it out of the URL, and use `api_key` or `custom_headers`"
        raise SpecError("E117", f"model `{model}`: the URL holds a user name or password", hint=hint)
    if "{" in parts.netloc and parts.netloc.partition(":")[0] != NODE_IP:
        hint = f"nothing but `{NODE_IP}` can stand for a host, and for the whole of it: `http://{NODE_IP}:8000/v1`"
        raise SpecError("E108", f"model `{model}`: {shown!r} is not the URL of an endpoint", hint=hint)
    if not is_whole or _ODD.search(url):
        hint = "write it as `http://127.0.0.1:8000/v1`"
        raise SpecError("E108", f"model `{model}`: {shown!r} is not the URL of an endpoint", hint=hint)
    for name, _ in parse_qsl(parts.query, keep_blank_values=True):
        if is_secret_parameter(name):
            hint = "leave it out of the URL, and use `api_key` or `custom_headers`"
            raise SpecError("E117", f"model `{model}`: the URL holds a secret, `{name}`", hint=hint)
        if name in READERS:
            hint = f"write it under `generation` of the model file, or behind the model's name: `?{name}=…`"
            message = f"model `{model}`: `{name}` in the query of its URL does not reach the model"
            raise SpecError("E108", message, hint=hint)
    return url


def is_secret_parameter(name: str) -> bool:
    """Return whether a parameter of a URL holds a secret, by its name."""
    return _SECRET_QUERY.fullmatch(name) is not None


def put_address(url: str, address: str) -> str:
    """Return a URL with the address of a node where it says so."""
    return url.replace(f"//{NODE_IP}", f"//[{address}]" if ":" in address else f"//{address}", 1)


def guard_secret(
    secret: Secret, address: Address, *, model: str, what: str, own_host: str | None, caller: Caller
) -> None:
    """Raise SpecError E117 when a key of the caller would go to a host that is not allowed to have it.

    `own_host` is the provider's; it counts only over TLS.
    """
    url = address.url
    host = tidy_host(urlsplit(url).hostname or "")
    is_own = host == own_host and url.lower().startswith("https://")
    if secret.origin != "caller" or address.is_callers or is_own or is_loopback(url) or caller.allows(url):
        return
    raise SpecError(
        "E117",
        f"model `{model}`: a file of the project names the host `{host}` for your {what}",
        hint=f"if that host may have it, run again with `--allow-host {host}`",
    )
