"""The APIs that can be spoken, and the providers that models are named by."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args
from urllib.parse import SplitResult, parse_qs, quote, urlsplit, urlunsplit

from answerkey.models.connections import ApiStyle
from answerkey.models.hosts import tidy_host
from answerkey.models.secret import Secret
from answerkey.models.styles import ANTHROPIC, GEMINI, OPENAI_CHAT, OPENAI_COMPLETIONS, OpenAiChat
from answerkey.models.styles.anthropic import VERSION

ApiName = Literal["chat", "completions", "anthropic", "gemini"]
API_NAMES: tuple[ApiName, ...] = get_args(ApiName)
AZURE_HOSTS = (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")
AZURE_VERSION = "api-version"
_OPENAI_HOST = "api.openai.com"
_VERSION_END = re.compile(r"/v\d+\w*$")
_ENDPOINTS = ("/completions", "/messages", ":generateContent")


@dataclass(frozen=True)
class Api:
    """One way to speak: its style, where it is below a base URL, and how a key is sent.

    `root` is the path of a base URL that has none.
    """

    style: ApiStyle
    path: str
    root: str = "/v1"
    key_header: str = "Authorization"
    key_start: str = "Bearer "
    headers: Mapping[str, str] = field(default_factory=dict)

    def find_endpoint(self, base: str, model: str | None) -> str:
        """Return the URL below a base URL; one that is an endpoint already stays as it is."""
        parts = urlsplit(base)
        path = parts.path.rstrip("/")
        if path.endswith(_ENDPOINTS):
            return base
        if not path or (self.style is ANTHROPIC and not _VERSION_END.search(path)):
            path += self.root
        return _set_path(parts, path + self.path.format(model=quote(model or "", safe="")))

    def hold_key(self, key: Secret) -> dict[str, Secret]:
        """Return the header that carries a key."""
        return {self.key_header: Secret(f"{self.key_start}{key.reveal()}", key.origin)}


@dataclass(frozen=True)
class AzureApi(Api):
    """Azure's form of an OpenAI API: another key header; with `api-version`, a path per deployment."""

    root: str = "/openai/v1"
    key_header: str = "api-key"
    key_start: str = ""

    def find_endpoint(self, base: str, model: str | None) -> str:
        """Return the URL of a deployment, or of the API that takes its name in the body."""
        parts = urlsplit(base)
        if parts.path.strip("/") or AZURE_VERSION not in parse_qs(parts.query):
            return super().find_endpoint(base, model)
        return _set_path(parts, f"/openai/deployments/{quote(model or '', safe='')}{self.path}")


def _set_path(parts: SplitResult, path: str) -> str:
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


APIS: dict[ApiName, Api] = {
    "chat": Api(OPENAI_CHAT, "/chat/completions"),
    "completions": Api(OPENAI_COMPLETIONS, "/completions"),
    "anthropic": Api(
        ANTHROPIC, "/messages", key_header="x-api-key", key_start="", headers={"anthropic-version": VERSION}
    ),
    "gemini": Api(
        GEMINI, "/models/{model}:generateContent", "/v1beta", key_header="x-goog-api-key", key_start=""
    ),
}


@dataclass(frozen=True)
class Provider:
    """A provider: the base URL of its own host, and the API that it speaks unless told otherwise."""

    name: str
    base_url: str | None
    api: ApiName = "chat"

    @property
    def key_name(self) -> str:
        """The environment value that holds its key."""
        return f"{self.name.upper()}_API_KEY"

    @property
    def base_name(self) -> str:
        """The environment value that overrides its base URL."""
        return f"{self.name.upper()}_BASE_URL"

    @property
    def own_host(self) -> str | None:
        """The host that its key belongs to."""
        return None if self.base_url is None else urlsplit(self.base_url).hostname


PROVIDERS: dict[str, Provider] = {
    one.name: one
    for one in (
        Provider("openai", f"https://{_OPENAI_HOST}/v1"),
        Provider("anthropic", "https://api.anthropic.com/v1", "anthropic"),
        Provider("gemini", "https://generativelanguage.googleapis.com/v1beta", "gemini"),
        Provider("together", "https://api.together.xyz/v1"),
        Provider("fireworks", "https://api.fireworks.ai/inference/v1"),
        Provider("sambanova", "https://api.sambanova.ai/v1"),
        Provider("novita", "https://api.novita.ai/openai/v1"),
        Provider("azure", None),
    )
}


def find_api(name: ApiName, url: str, provider: str | None = None) -> Api:
    """Return the API as the host at a URL speaks it."""
    api = APIS[name]
    host = tidy_host(urlsplit(url).hostname or "")
    is_azure = provider == "azure" or host.endswith(AZURE_HOSTS)
    if name == "chat" and (is_azure or host == _OPENAI_HOST):
        # Their newer models refuse `max_tokens`; other endpoints often know no other name.
        api = replace(api, style=OpenAiChat("max_completion_tokens"))
    if is_azure and name in {"chat", "completions"}:
        api = AzureApi(api.style, api.path)
    return api


def find_host_provider(url: str) -> Provider | None:
    """Return the provider whose own host a URL names."""
    host = tidy_host(urlsplit(url).hostname or "")
    return next((one for one in PROVIDERS.values() if one.own_host == host), None)


def ends_in_version(url: str) -> bool:
    """Return whether a URL is a base URL by its looks: its path ends in a version, such as `/v1`."""
    return bool(_VERSION_END.search(urlsplit(url).path.rstrip("/")))
