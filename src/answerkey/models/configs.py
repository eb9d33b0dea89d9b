"""What is known of a model before it is connected: from a name, or from a model file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

from answerkey.errors import Place, SpecError, listing, remember_url, suggest
from answerkey.models.connections import Tls
from answerkey.models.generation import Generation, read_generation
from answerkey.models.hosts import Address, Caller, is_secret_parameter
from answerkey.models.parameters import split_query
from answerkey.models.providers import API_NAMES, AZURE_VERSION, PROVIDERS, ApiName
from answerkey.models.secret import Secret
from answerkey.models.styles import Adapter
from answerkey.sandbox import Snippet


@dataclass(frozen=True)
class ProviderConfig:
    """A model of a provider."""

    provider: str
    model: str
    api_key: Secret | None = None
    base_url: Address | None = None
    api: ApiName | None = None


@dataclass(frozen=True)
class UrlConfig:
    """A model of an OpenAI-compatible endpoint, by its base URL: `http://127.0.0.1:8000/v1#name`."""

    address: Address
    model: str
    api: ApiName = "chat"


@dataclass(frozen=True)
class CustomConfig:
    """A model behind a URL; without an adapter of the user's own it speaks `api`."""

    address: Address
    model: str | None = None
    api: ApiName = "chat"
    adapter: Adapter | None = None
    api_key: Secret | None = None
    headers: Mapping[str, Secret] = field(default_factory=dict)
    tls: Tls | None = None


@dataclass(frozen=True)
class InferenceConfig:
    """A model that is a Python snippet; `seconds` is what one call may take."""

    snippet: Snippet
    environment: Mapping[str, Secret] = field(default_factory=dict)
    seconds: float | None = None


@dataclass(frozen=True)
class PlaceholderConfig:
    """A model that is only named."""


Config = ProviderConfig | UrlConfig | CustomConfig | InferenceConfig | PlaceholderConfig


@dataclass(frozen=True)
class ModelConfig:
    """A model that can be opened: `name` as it is shown, how it is reached, and on whose behalf."""

    name: str
    config: Config
    generation: Generation = field(default_factory=Generation)
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    max_concurrent: int | None = None
    caller: Caller = field(default_factory=Caller)
    place: Place | None = None

    @property
    def snippets(self) -> tuple[Snippet, ...]:
        """The user's code that would run."""
        return (self.config.snippet,) if isinstance(self.config, InferenceConfig) else ()


def is_url(name: str) -> bool:
    """Return whether a model's name is the URL of an endpoint."""
    return name.lower().startswith(("http://", "https://"))


def is_live(name: str) -> bool:
    """Return whether a name is that of a provider's model, or the URL of an endpoint."""
    return is_url(name) or ("/" in name and name.partition("/")[0] in PROVIDERS)


def read_name(name: str, *, caller: Caller, is_callers: bool, place: Place | None = None) -> ModelConfig:
    """Return the model that a live name stands for; SpecError E301 for a name that is not complete.

    `is_callers`: the caller wrote the name, not a file of the project.
    """
    remember_url(name)
    read = _read_url if is_url(name) else _read_provider
    config, generation = read(name, is_callers=is_callers)
    return ModelConfig(name, config, generation, caller=caller, place=place)


def _read_url(name: str, *, is_callers: bool) -> tuple[UrlConfig, Generation]:
    address, _, model = name.partition("#")
    if not model:
        hint = f"add the model's name behind `#`: `{address.partition('?')[0]}#NAME`"
        raise SpecError("E301", f"model `{name}` names no model at that address", hint=hint)
    if "?" in model:
        hint = f"parameters stand before `#`: `{address}?{model.partition('?')[2]}#{model.partition('?')[0]}`"
        raise SpecError("E301", f"model `{name}` has parameters behind the model's name", hint=hint)
    base, _, query = address.partition("?")
    own = dict(split_query(name, query))
    # What the address needs stays in it, and a secret, which is refused when the address is looked at.
    rest = {key: own.pop(key) for key in list(own) if key == AZURE_VERSION or is_secret_parameter(key)}
    scheme, _, place = base.partition("://")
    url = f"{scheme.lower()}://{place}" + (f"?{urlencode(rest)}" if rest else "")
    api = _take_api(name, own) or "chat"
    return UrlConfig(Address(url, is_callers), model, api), read_generation(name, own, ("api", AZURE_VERSION))


def _read_provider(name: str, *, is_callers: bool) -> tuple[ProviderConfig, Generation]:
    del is_callers
    start, _, query = name.partition("?")
    provider, _, model = start.partition("/")
    if provider not in PROVIDERS or not model:
        hint = suggest(provider, PROVIDERS) or f"providers: {listing(PROVIDERS)}"
        raise SpecError("E301", f"unknown model `{name}`", hint=hint)
    given = dict(split_query(name, query))
    api = _take_api(name, given)
    return ProviderConfig(provider, model, api=api), read_generation(name, given)


def _take_api(name: str, given: dict[str, str]) -> ApiName | None:
    stated = given.pop("api", None)
    if stated is None:
        return None
    for api in API_NAMES:
        if api == stated:
            return api
    hint = suggest(stated, API_NAMES) or f"APIs: {listing(API_NAMES)}"
    raise SpecError("E301", f"model `{name}`: unknown API {stated!r}", hint=hint)
