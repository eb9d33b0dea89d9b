"""Turns a model config into a connection: the URL that is called, and the key that is sent.

A key of the caller goes to the provider's own host, to hosts that the caller named, and to this
machine. A host that a project file names for it is refused until the caller allows it: a file from
elsewhere must not be able to collect keys.
"""

from __future__ import annotations

import re
from dataclasses import replace
from urllib.parse import quote, urlsplit

from answerkey.errors import SpecError, listing
from answerkey.models.config import (
    EXTRA,
    GENERATION_PARAMETERS,
    Address,
    Caller,
    CustomConfig,
    Generation,
    ModelConfig,
    ProviderConfig,
    Secret,
    check_url,
    find_secret_name,
    is_loopback,
    normalise_host,
)
from answerkey.models.names import PROVIDERS, ApiName, Provider
from answerkey.models.providers import APIS, AZURE_HOSTS, AdapterApi, Api, Connection

#: The environment variable with the key for endpoints that are named by URL.
URL_KEY = "ANSWERKEY_API_KEY"

Headers = dict[str, Secret | str]
_VERSION_END = re.compile(r"/v\d+\w*$")
_ENDPOINTS = ("/completions", "/messages", ":generateContent")
_AUTH_HEADER = re.compile(r".*(auth|key|token|secret|cookie|password|credential).*", re.IGNORECASE)
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_TEXT = re.compile(r"[\t\x20-\x7e]*")
#: Fields of a request's body that `extra_body` cannot set.
_OWN_FIELDS = frozenset(
    {"model", "messages", "system", "prompt", "contents", "systemInstruction", "stream"}
)
#: Headers that a model file cannot set.
_OWN_HEADERS = frozenset(
    {"host", "content-length", "content-type", "transfer-encoding", "connection"}
)


def connect(model: ModelConfig) -> Connection:
    """Return the connection of a live model.

    Raises SpecError E301 (a model that cannot be called), E108 (an invalid value) or E117 (a key
    that must not go there). A missing key is no error yet: see `Connection.require_key`.
    """
    config = model.config
    if not isinstance(config, ProviderConfig | CustomConfig):
        raise SpecError(
            "E301",
            f"model `{model.name}` is a placeholder: it cannot be called",
            where=model.place,
            hint="bring recorded completions with `--completions FILE`, or choose one such as "
            "`builtin/random`",
        )
    try:
        if isinstance(config, ProviderConfig):
            connection = _connect_provider(config, model)
        else:
            connection = _connect_custom(config, model)
        _check_connection(connection, model.generation)
    except SpecError as error:
        raise SpecError(
            error.code,
            error.message,
            where=error.where or model.place,
            hint=error.hint,
        ) from None
    return replace(
        connection,
        generation=model.generation,
        max_concurrent=model.max_concurrent,
        requests_per_minute=model.requests_per_minute,
    )


# Providers, and endpoints that are named by URL.


def _connect_provider(config: ProviderConfig, model: ModelConfig) -> Connection:
    """Connect to a provider, or to an endpoint that is named by URL."""
    name = config.provider
    provider = Provider(None) if name is None else PROVIDERS[name]
    base = _find_base(config, provider, model)
    url = check_url(base.url, model.name)
    api = _find_api(config.api or provider.api, url, name)
    variable = _choose_key_variable(name, url, model.caller)
    key = config.api_key or model.caller.find_key(variable)
    is_own = provider.owns(_host_of(url))
    key_title = f"`{variable}`"
    key_source = f"the environment variable {key_title}"
    if config.api_key:
        key_title = "key"
        key_source = "the model file"
    _guard_key(key, base, model, key_title, is_allowed=is_own)
    needs_key = is_own and url.startswith("https://") and not key
    return Connection(
        model.name,
        api,
        _find_endpoint(api, url, config.model),
        config.model,
        headers=_build_headers(api, key),
        key=key or None,
        missing_key=variable if needs_key else None,
        key_source=key_source,
    )


def _find_base(config: ProviderConfig, provider: Provider, model: ModelConfig) -> Address:
    """Return the base URL of the config, of the environment, or the provider's own."""
    name = config.provider or ""
    base_name = f"{name.upper()}_BASE_URL"
    base = config.base_url or model.caller.find_address(base_name)
    if base is not None:
        return base
    if provider.base_url is None:
        raise SpecError(
            "E108",
            f"model `{model.name}`: `{name}` has no base URL",
            hint=f"set `{base_name}` to the address of your resource",
        )
    return Address(provider.base_url)


def _choose_key_variable(provider: str | None, url: str, caller: Caller) -> str:
    """Return the environment variable that holds the key, or would hold it.

    A provider's key never goes to another host just because no better key is set. The exception is
    OpenAI's key, which may go to this machine.
    """
    if provider is None and caller.find(URL_KEY) is not None:
        return URL_KEY
    owner = provider
    if owner is None and url.startswith("https://"):
        owner = _find_provider(url)
    if owner is None:
        # Most users of servers on this machine set this variable.
        if is_loopback(url) and caller.find("OPENAI_API_KEY") is not None:
            return "OPENAI_API_KEY"
        return URL_KEY
    variable = f"{owner.upper()}_API_KEY"
    second = PROVIDERS[owner].key
    if second and caller.find(variable) is None:
        return second
    return variable


def _connect_custom(config: CustomConfig, model: ModelConfig) -> Connection:
    url = check_url(config.address.url, model.name)
    api = _find_api(config.api, url)
    is_base = _VERSION_END.search(urlsplit(url).path.rstrip("/"))
    if config.adapter is None and is_base:
        url = _find_endpoint(api, url, config.model)
    for secret in (config.api_key, *config.headers.values()):
        _guard_key(secret, config.address, model, "key")
    headers = _build_headers(api, config.api_key)
    _add_headers(headers, config, model)
    adapter = None
    if config.adapter is not None:
        adapter = AdapterApi(config.adapter, {"key": model.name})
    return Connection(
        model.name,
        adapter or api,
        url,
        config.model,
        headers,
        key=config.api_key or None,
        trusted_ca=config.trusted_ca,
    )


def _add_headers(headers: Headers, config: CustomConfig, model: ModelConfig) -> None:
    """Add the headers of a model file to those of the API."""
    for name, value in config.headers.items():
        if not _HEADER_NAME.fullmatch(name) or name.lower() in _OWN_HEADERS:
            raise SpecError("E108", f"model `{model.name}`: the header {name!r} cannot be set")
        # Names are unique, ignoring case; the model file's header wins.
        for present_name in list(headers):
            if present_name.lower() == name.lower():
                del headers[present_name]
        # A value that is clearly not a secret is part of the identity.
        is_plain = value.origin == "written" and not _AUTH_HEADER.fullmatch(name)
        headers[name] = value.reveal() if is_plain else value


def _find_api(name: ApiName, url: str, provider: str | None = None) -> Api:
    """Return the API as the provider, or the host of a URL, speaks it."""
    api = APIS[name]
    is_azure = provider == "azure" or _host_of(url).endswith(AZURE_HOSTS)
    owner = "azure" if is_azure else _find_provider(url) or provider
    if name == "chat" and owner is not None:
        names = {**api.names, **PROVIDERS[owner].names}
        api = replace(api, names=names)
    if is_azure and name in {"chat", "completions"}:
        api = replace(
            api,
            root="/openai/v1",
            key_header="api-key",
            key_start="",
        )
    return api


def _find_endpoint(api: Api, base: str, model: str | None) -> str:
    """Return the endpoint below a base URL; an endpoint is returned unchanged."""
    parts = urlsplit(base)
    path = parts.path.rstrip("/")
    name = quote(model or "", safe="")
    if path.endswith(_ENDPOINTS):
        return base
    has_root = path and (api.path != "/messages" or _VERSION_END.search(path))
    if not has_root:
        path += api.root
    path += api.path.format(model=name)
    return parts._replace(path=path, fragment="").geturl()


def _build_headers(api: Api, key: Secret | None) -> Headers:
    """Return the headers of an API, with the key if there is one."""
    headers: Headers = dict(api.headers)
    if key:
        headers[api.key_header] = Secret(f"{api.key_start}{key.reveal().strip()}", key.origin)
    return headers


def _host_of(url: str) -> str:
    return normalise_host(urlsplit(url).hostname or "")


def _find_provider(url: str) -> str | None:
    """Return the provider that owns the host of a URL."""
    host = _host_of(url)
    for name, provider in PROVIDERS.items():
        if provider.owns(host):
            return name
    return None


def _guard_key(
    secret: Secret | None,
    address: Address,
    model: ModelConfig,
    title: str,
    *,
    is_allowed: bool = False,
) -> None:
    """Raise SpecError E117 if a key of the caller would go to a host that must not receive it.

    `is_allowed` means that the host is the provider's own. The host of a provider may also receive
    a key that is not known to be another provider's. Both only over TLS.
    """
    url = address.url
    if not secret or secret.origin != "caller" or address.is_callers:
        return
    provider = _find_provider(url)
    if provider is not None and not _is_key_of_another(secret, provider, model.caller):
        is_allowed = True
    if is_allowed and url.lower().startswith("https://"):
        return
    if is_loopback(url) or model.caller.allows(url):
        return
    host = _host_of(url)
    raise SpecError(
        "E117",
        f"model `{model.name}`: a file of the project names the host `{host}` for your {title}",
        hint=f"if that host may have it, run again with `--allow-host {host}`",
    )


def _is_key_of_another(secret: Secret, provider: str, caller: Caller) -> bool:
    """Return whether a key is known to be another provider's."""
    text = secret.reveal().strip()
    for name, details in PROVIDERS.items():
        variables = (f"{name.upper()}_API_KEY", details.key)
        if name != provider and text in map(caller.find, variables):
            return True
    return False


# Checks of what is sent.


def _check_connection(connection: Connection, generation: Generation) -> None:
    """Raise SpecError E108 for parameters that cannot be sent, E117 for secrets that must not be
    sent.
    """
    _check_supported(connection, generation)
    _check_generation(connection.name, generation)
    for name, text in connection.reveal_headers().items():
        if not _HEADER_TEXT.fullmatch(text):
            raise SpecError(
                "E117",
                f"model `{connection.name}`: the value of the header `{name}` cannot be sent",
                hint="it contains a line break, or characters other than ASCII",
            )
    if connection.trusted_ca is not None:
        _check_certificates(connection.name, connection.trusted_ca)


def _check_supported(connection: Connection, generation: Generation) -> None:
    """Raise SpecError E108 for parameters that the API does not have."""
    unfit = connection.api.unsupported.intersection(generation.given())
    if not unfit:
        return
    hint = "leave it out of `generation`, or read `kwargs` in `process_input`"
    if isinstance(connection.api, Api):
        apis = [name for name, api in APIS.items() if not api.unsupported & unfit]
        hint = "leave it out of `generation`; send a field of the endpoint's own with "
        hint += f"`extra_body` (`?{EXTRA}NAME=`)"
        if apis:
            hint += f"; APIs that have it: {listing(apis)}"
    raise SpecError(
        "E108",
        f"model `{connection.name}`: {connection.api.title} does not take {listing(sorted(unfit))}",
        hint=hint,
    )


def _check_generation(name: str, generation: Generation) -> None:
    """Raise SpecError for additional fields that must not be sent."""
    extra = generation.extra_body or {}
    for field in extra:
        if field in _OWN_FIELDS or field in GENERATION_PARAMETERS:
            raise SpecError(
                "E108",
                f"model `{name}`: `{field}` of `extra_body` is set by answerkey itself",
                hint="leave it out of `extra_body`; write parameters under `generation`",
            )
    if (secret_name := find_secret_name(extra)) is not None:
        raise SpecError(
            "E117",
            f"model `{name}`: `extra_body` contains a secret, `{secret_name}`",
            hint="use `api_key` or `custom_headers`",
        )


def _check_certificates(name: str, text: str) -> None:
    import ssl

    try:
        ssl.create_default_context(cadata=text)
    except (ssl.SSLError, ValueError):
        raise SpecError(
            "E108",
            f"model `{name}`: `trusted_ca` contains no readable certificate",
            hint="it must be the text of a PEM file: `trusted_ca: !include certificates.pem`",
        ) from None
