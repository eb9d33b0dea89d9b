"""From a model's name or file to its connection: the URL, the key, and whether the two may meet."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from answerkey.errors import Place, SpecError, listing, remember_url, suggest
from answerkey.models.calls import Price
from answerkey.models.providers import (
    API_NAMES,
    AZURE_VERSION,
    PROVIDERS,
    Adapter,
    AdapterStyle,
    Api,
    ApiName,
    ApiStyle,
    Connection,
    Provider,
    Tls,
    ends_in_version,
    find_api,
    find_host_provider,
)
from answerkey.models.settings import (
    Address,
    Caller,
    Generation,
    Secret,
    check_url,
    guard_secret,
    is_loopback,
    is_secret_parameter,
    read_generation,
    split_query,
)
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


#: The key for endpoints that are named by their URL.
URL_KEY = "ANSWERKEY_API_KEY"
#: The key that servers on this machine are sent, as most of their users set it.
LOCAL_KEY = "OPENAI_API_KEY"
AZURE_VERSION_NAME = "AZURE_API_VERSION"

_AUTH_HEADER = re.compile(r".*(auth|key|token|secret|cookie|password|credential).*", re.IGNORECASE)
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_TEXT = re.compile(r"[\t\x20-\x7e]*")
#: Headers that are the sender's own business.
_OWN_HEADERS = frozenset({"host", "content-length", "content-type", "transfer-encoding", "connection"})


def connect(model: str | ModelConfig, *, caller: Caller | None = None) -> Connection:
    """Return the connection of a live model; a name is taken as the caller's word.

    SpecError E301 (no such model, or none that can be asked), E108 (a value that does not fit), E117 (a key
    that may not go there). A key that is not set is no error yet: see `Connection.require_key`.
    """
    if isinstance(model, str):
        model = read_name(model, caller=caller or Caller.of_process(), is_callers=True)
    try:
        return _finish(_reach(model), model)
    except SpecError as error:
        place = error.where or model.place
        raise SpecError(error.code, error.message, where=place, hint=error.hint) from None


def _reach(model: ModelConfig) -> Connection:
    config = model.config
    if isinstance(config, ProviderConfig):
        return _reach_provider(config, model)
    if isinstance(config, UrlConfig):
        return _reach_url(config, model)
    if isinstance(config, CustomConfig):
        return _reach_custom(config, model)
    if isinstance(config, PlaceholderConfig):
        hint = "bring recorded completions with `--completions FILE`, or choose one such as `builtin/random`"
        raise SpecError("E301", f"model `{model.name}` is a placeholder: it cannot be asked", hint=hint)
    raise SpecError("E301", f"model `{model.name}` is a Python snippet: there is nothing to connect to")


def _reach_provider(config: ProviderConfig, model: ModelConfig) -> Connection:
    provider = PROVIDERS[config.provider]
    base = _find_base(config, provider, model)
    api = find_api(config.api or provider.api, base.url, provider.name)
    key = config.api_key or model.caller.find_key(provider.key_name)
    if key:
        is_ours = not config.api_key
        what = f"`{provider.key_name}`" if is_ours else "key"
        _guard(key, base, model, what=what, own_host=provider.own_host)
    is_own = base.url.startswith(f"https://{provider.own_host}/")
    return Connection(
        model.name,
        api.style,
        api.find_endpoint(base.url, config.model),
        config.model,
        headers=_hold(api, key),
        key=key or None,
        missing_key=provider.key_name if is_own and not key else None,
    )


def _find_base(config: ProviderConfig, provider: Provider, model: ModelConfig) -> Address:
    """Return the base URL: the model's own, else the environment's, else the provider's."""
    caller = model.caller
    stated = caller.find(provider.base_name)
    if config.base_url is not None:
        base = config.base_url
    elif stated is not None:
        base = Address(stated, is_callers=caller.says(provider.base_name))
    elif provider.base_url is not None:
        base = Address(provider.base_url)
    else:
        hint = f"set `{provider.base_name}` to the address of your resource"
        raise SpecError("E108", f"model `{model.name}`: `{provider.name}` has no base URL", hint=hint)
    url = check_url(base.url, model.name)
    version = caller.find(AZURE_VERSION_NAME) if provider.name == "azure" else None
    if version is not None and AZURE_VERSION not in parse_qs(urlsplit(url).query):
        url += ("&" if "?" in url else "?") + urlencode({AZURE_VERSION: version})
    return Address(url, base.is_callers)


def _reach_url(config: UrlConfig, model: ModelConfig) -> Connection:
    url = check_url(config.address.url, model.name)
    api = find_api(config.api, url)
    name = _name_url_key(url, model.caller)
    key = None if name is None else model.caller.find_key(name)
    if key:
        _guard(key, config.address, model, what=f"`{name}`")
    endpoint = api.find_endpoint(url, config.model)
    return Connection(model.name, api.style, endpoint, config.model, _hold(api, key), key)


def _name_url_key(url: str, caller: Caller) -> str | None:
    """Return which environment value holds the key of an endpoint that is named by its URL alone.

    The key of a provider is not sent to a host of another only because no better key is set.
    """
    if caller.find(URL_KEY) is not None:
        return URL_KEY
    provider = find_host_provider(url) if url.startswith("https://") else None
    if provider is not None:
        return provider.key_name
    return LOCAL_KEY if is_loopback(url) else None


def _reach_custom(config: CustomConfig, model: ModelConfig) -> Connection:
    url = check_url(config.address.url, model.name)
    api = find_api(config.api, url)
    style: ApiStyle = api.style
    if config.adapter is not None:
        style = AdapterStyle(config.adapter, {"key": model.name})
    elif ends_in_version(url):
        url = api.find_endpoint(url, config.model)
    for secret in (config.api_key, *config.headers.values()):
        if secret:
            _guard(secret, config.address, model, what="key")
    headers: dict[str, Secret | str] = {**_hold(api, config.api_key), **_open_headers(config, model)}
    # Each name once, whatever its case; the later one wins.
    headers = {name: headers[name] for name in {name.lower(): name for name in headers}.values()}
    return Connection(
        model.name, style, url, config.model, headers, key=config.api_key or None, tls=config.tls
    )


def _open_headers(config: CustomConfig, model: ModelConfig) -> dict[str, Secret | str]:
    """Return the file's own headers; a value that is plainly no secret takes part in the identity."""
    headers: dict[str, Secret | str] = {}
    for name, value in config.headers.items():
        if not _HEADER_NAME.fullmatch(name) or name.lower() in _OWN_HEADERS:
            raise SpecError("E108", f"model `{model.name}`: {name!r} cannot be a header of yours")
        is_plain = value.origin == "written" and not _AUTH_HEADER.fullmatch(name)
        headers[name] = value.reveal() if is_plain else value
    return headers


def _hold(api: Api, key: Secret | None) -> dict[str, Secret | str]:
    return {**api.headers, **(api.hold_key(Secret(key.reveal().strip(), key.origin)) if key else {})}


def _guard(
    secret: Secret, address: Address, model: ModelConfig, *, what: str, own_host: str | None = None
) -> None:
    if own_host is None:
        own_host = _find_own_host(secret, address.url, model.caller)
    guard_secret(secret, address, model=model.name, what=what, own_host=own_host, caller=model.caller)


def _find_own_host(secret: Secret, url: str, caller: Caller) -> str | None:
    """Return the host at a URL if it is a provider's and the key is not known as that of another one."""
    host = find_host_provider(url)
    others = {
        caller.find(one.key_name) for one in PROVIDERS.values() if host is not None and one.name != host.name
    }
    return host.own_host if host is not None and secret.reveal().strip() not in others else None


def _finish(reached: Connection, model: ModelConfig) -> Connection:
    unfit = [name for name in model.generation.given() if name in reached.style.unsupported]
    if unfit:
        hint = "leave it out of `generation`"
        raise SpecError("E108", f"model `{model.name}`: its API does not take {listing(unfit)}", hint=hint)
    for name, value in reached.headers.items():
        text = value.reveal() if isinstance(value, Secret) else value
        if not _HEADER_TEXT.fullmatch(text):
            message = f"model `{model.name}`: the value of the header `{name}` cannot be sent"
            raise SpecError("E117", message, hint="it holds a line break, or characters other than ASCII")
    if reached.tls is not None and reached.tls.trusted_ca is not None:
        import ssl

        try:
            ssl.create_default_context(cadata=reached.tls.trusted_ca)
        except (ssl.SSLError, ValueError):
            hint = "it holds the text of a PEM file: `trusted_ca: !include certificates.pem`"
            message = f"model `{model.name}`: `trusted_ca` holds no certificate that can be read"
            raise SpecError("E108", message, hint=hint) from None
    return replace(
        reached,
        generation=model.generation,
        max_concurrent=model.max_concurrent,
        requests_per_minute=model.requests_per_minute,
        tokens_per_minute=model.tokens_per_minute,
    )


#: Tokens for which a price is asked; few enough for the price of an ordinary request.
_TOKENS = 1000


def find_price(connection: Connection) -> Price | None:
    """Return what a token of the model costs in USD; None when nobody knows.

    The package `genai-prices`, where it is installed, knows the models of providers at their own addresses.
    """
    try:
        prices: Any = importlib.import_module("genai_prices")
    except ImportError:
        return None
    usage = prices.Usage(input_tokens=_TOKENS, output_tokens=_TOKENS)
    try:
        found = prices.calc_price(usage, model_ref=connection.model or "", provider_api_url=connection.url)
    except LookupError:
        return None
    return Price(float(found.input_price) / _TOKENS, float(found.output_price) / _TOKENS)
