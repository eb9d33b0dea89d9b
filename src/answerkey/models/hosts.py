"""Which host may be sent whose key.

A key of the caller goes to the provider's own host, to a host that the caller named, and to this machine. A
host that a project file names for it is refused until the caller allows it: a file from elsewhere must not be
able to collect keys.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self
from urllib.parse import SplitResult, parse_qsl, urlsplit

from answerkey.errors import HIDDEN_PARAMETER, SpecError, remember_url
from answerkey.models.generation import READERS
from answerkey.models.secret import Secret

ALLOW_HOSTS = "ANSWERKEY_ALLOW_HOSTS"
#: Stands for the host where whoever asks is a node of a cluster: the endpoint is on the node itself.
NODE_IP = "{node_ip}"
_SECRET_QUERY = re.compile(HIDDEN_PARAMETER, re.IGNORECASE)
_ODD = re.compile(r"[\s\\\x00-\x1f\x7f]")


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
