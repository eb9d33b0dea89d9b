"""From what is known of a model to a connection: the URL, the key, and whether the two may meet."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlencode, urlsplit

from answerkey.errors import SpecError, listing
from answerkey.models.configs import (
    CustomConfig,
    ModelConfig,
    PlaceholderConfig,
    ProviderConfig,
    UrlConfig,
    read_name,
)
from answerkey.models.connections import ApiStyle, Connection, Tls
from answerkey.models.hosts import Address, Caller, check_url, guard_secret, is_loopback
from answerkey.models.providers import (
    AZURE_VERSION,
    PROVIDERS,
    Api,
    Provider,
    ends_in_version,
    find_api,
    find_host_provider,
)
from answerkey.models.secret import Secret
from answerkey.models.styles import AdapterStyle

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


@dataclass(frozen=True)
class _Reached:
    """Where and how a model is reached, before its limits are added."""

    style: ApiStyle
    url: str
    model: str | None
    headers: Mapping[str, Secret | str] = field(default_factory=dict)
    key: Secret | None = None
    missing_key: str | None = None
    tls: Tls | None = None


def _reach(model: ModelConfig) -> _Reached:
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


def _reach_provider(config: ProviderConfig, model: ModelConfig) -> _Reached:
    provider = PROVIDERS[config.provider]
    base = _find_base(config, provider, model)
    api = find_api(config.api or provider.api, base.url, provider.name)
    key = config.api_key or model.caller.find_key(provider.key_name)
    if key:
        is_ours = not config.api_key
        what = f"`{provider.key_name}`" if is_ours else "key"
        _guard(key, base, model, what=what, own_host=provider.own_host)
    is_own = base.url.startswith(f"https://{provider.own_host}/")
    return _Reached(
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


def _reach_url(config: UrlConfig, model: ModelConfig) -> _Reached:
    url = check_url(config.address.url, model.name)
    api = find_api(config.api, url)
    name = _name_url_key(url, model.caller)
    key = None if name is None else model.caller.find_key(name)
    if key:
        _guard(key, config.address, model, what=f"`{name}`")
    endpoint = api.find_endpoint(url, config.model)
    return _Reached(api.style, endpoint, config.model, headers=_hold(api, key), key=key)


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


def _reach_custom(config: CustomConfig, model: ModelConfig) -> _Reached:
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
    return _Reached(
        style, url, config.model, headers=_keep_last(headers), key=config.api_key or None, tls=config.tls
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


def _keep_last(headers: Mapping[str, Secret | str]) -> dict[str, Secret | str]:
    """Return the headers with each name once, whatever its case; the later one wins."""
    names = {name.lower(): name for name in headers}
    return {name: headers[name] for name in names.values()}


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


def _finish(reached: _Reached, model: ModelConfig) -> Connection:
    unfit = [name for name in model.generation.given() if name in reached.style.unsupported]
    if unfit:
        hint = "leave it out of `generation`"
        raise SpecError("E108", f"model `{model.name}`: its API does not take {listing(unfit)}", hint=hint)
    for name, value in reached.headers.items():
        text = value.reveal() if isinstance(value, Secret) else value
        if not _HEADER_TEXT.fullmatch(text):
            message = f"model `{model.name}`: the value of the header `{name}` cannot be sent"
            raise SpecError("E117", message, hint="it holds a line break, or characters other than ASCII")
    _check_certificates(reached.tls, model)
    return Connection(
        name=model.name,
        style=reached.style,
        url=reached.url,
        model=reached.model,
        headers=reached.headers,
        key=reached.key,
        generation=model.generation,
        tls=reached.tls,
        max_concurrent=model.max_concurrent,
        requests_per_minute=model.requests_per_minute,
        tokens_per_minute=model.tokens_per_minute,
        missing_key=reached.missing_key,
    )


def _check_certificates(tls: Tls | None, model: ModelConfig) -> None:
    if tls is None or tls.trusted_ca is None:
        return
    import ssl

    try:
        ssl.create_default_context(cadata=tls.trusted_ca)
    except (ssl.SSLError, ValueError):
        hint = "it holds the text of a PEM file: `trusted_ca: !include certificates.pem`"
        message = f"model `{model.name}`: `trusted_ca` holds no certificate that can be read"
        raise SpecError("E108", message, hint=hint) from None
