"""Model files, models named by their provider, and adapters become models that can be called."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import (
    Annotated,
    Any,
    Literal,
)

from pydantic import Field

from answerkey.errors import (
    Place,
    SpecError,
    listing,
    suggest,
)
from answerkey.models.config import (
    INFERENCE_FUNCTION,
    LATER_INFERENCE_FUNCTION,
    Adapter,
    Address,
    CustomConfig,
    Generation,
    InferenceConfig,
    ModelConfig,
    ProviderConfig,
)
from answerkey.models.names import PROVIDERS, ApiName
from answerkey.sandbox import Snippet, check_snippet
from answerkey.spec.config import refuse_config
from answerkey.spec.nodes import (
    BROKEN,
    Broken,
    Node,
    Problems,
    walk_scalars,
)
from answerkey.spec.shapes import (
    Count,
    Described,
    Reference,
    SpecificationFields,
    TaskKind,
    part,
)
from answerkey.spec.shapes import Generation as GenerationFields
from answerkey.spec.validation import (
    Fields,
    Number,
    SecretText,
    Text,
    report_text,
    validate_node,
)
from answerkey.templates import Template

#: Adapters that need not be defined: with them the endpoint has the chat API.
OWN_ADAPTERS = frozenset(
    {"latticeflow$identity", "latticeflow$openai_chat_completion", "latticeflow$openai"}
)
Connection = ProviderConfig | CustomConfig | InferenceConfig | None
#: Two names of one field.
_SNIPPETS = ("snippet", "run_inference_snippet")


class Code(Fields):
    """A piece of an adapter."""

    language: Literal["jinja", "python"] = "jinja"
    source_code: Text


class AdapterFields(Described):
    """A model adapter: how messages become a request, and a reply becomes messages."""

    key: Reference
    provider: Literal["user"] = "user"
    task: TaskKind | None = None
    process_input: Code
    process_output: Code


class AdapterChoice(Fields):
    """Which adapter a model uses."""

    key: Reference


class ValidationContext(Fields):
    """Which certificates an endpoint may show: the system's, or those of `trusted_ca` (PEM)."""

    trusted_ca: Text | None = None
    trust_chain_verification: Literal["verify_trust_chain", "accept_untrusted"] | None = None


class TlsContext(Fields):
    """How an endpoint proves who it is."""

    validation_context: ValidationContext | None = None


class CustomConnection(Fields):
    """A model behind a URL."""

    connection_type: Literal["custom_connection"] = "custom_connection"
    url: Text
    adapter: AdapterChoice | None = None
    api: ApiName | None = None
    api_key: SecretText | None = None
    model_key: Text | None = None
    custom_headers: dict[str, SecretText] | None = None
    tls_context: TlsContext | None = None


class ProviderConnection(Fields):
    """A model of a known provider."""

    connection_type: Literal["provider_connection"]
    provider_id: Text
    model_key: Text
    base_url: Text | None = None
    api: ApiName | None = None
    api_key: SecretText | None = None


class PlaceholderConnection(Fields):
    """A model that is only named: no inference."""

    connection_type: Literal["placeholder"]


class CustomInference(Fields):
    """A model that is a Python snippet."""

    connection_type: Literal["custom_inference"]
    snippet: Text | None = None
    run_inference_snippet: Text | None = None
    adapter: AdapterChoice | None = None
    environment: dict[str, SecretText] | None = None
    timeout: Annotated[Number, Field(ge=1)] | None = None


CONNECTIONS: dict[str, type[Fields]] = {
    "custom_connection": CustomConnection,
    "provider_connection": ProviderConnection,
    "placeholder": PlaceholderConnection,
    "custom_inference": CustomInference,
}


class ModelFields(Described):
    """A model file."""

    key: Reference
    rate_limit: Annotated[Number, Field(gt=0)] | None = None
    max_concurrent_requests: Count | None = None
    task: TaskKind = "chat_completion"
    adapter: AdapterChoice | None = None
    config: Annotated[Any, part("connection")]
    generation: GenerationFields | None = None
    extra_body: dict[str, Any] | None = None


class ProviderModel(Fields):
    """A model named by its provider, or a built-in one."""

    provider: Annotated[Text, Field(alias="$provider", pattern=r"^[^/]+/.+$")]
    display_name: Text | None = None
    base_url: Text | None = None
    api: ApiName | None = None
    generation: GenerationFields | None = None
    extra_body: dict[str, Any] | None = None


@dataclass(frozen=True)
class ModelSpec:
    """A model by key: a name for `open_model`, or a config without its adapter and the caller.

    `title` is how it is shown where recorded completions are its own.
    """

    key: str
    place: Place
    title: str
    name: str | None = None
    config: ModelConfig | None = None
    adapter: str | None = None
    task: TaskKind = "chat_completion"


def provider_key(name: str) -> str:
    """Return the key of a provider model: `openai/GPT-4.1` is `openai$gpt-4-1`."""
    return "$".join(re.sub(r"[^a-z0-9_-]+", "-", part) for part in name.lower().split("/", 1))


def build_model(node: Node, problems: Problems) -> ModelSpec | None:
    """Return the model of a model file or of an entry of `models`."""
    refuse_config(node, problems)
    if "$provider" in node.entries:
        return _build_provider_model(node, problems)
    fields = validate_node(ModelFields, node, problems, name="the model")
    if "config" not in node.entries:
        return None
    part = node.entries["config"]
    connection = _read_connection(part, problems)
    if connection is None:
        return None
    config = _build_connection(connection, part, node.key or "", problems)
    if fields is None or isinstance(config, Broken) or _lacks_value(part):
        return None
    place = node.place
    for name in ("connection_type", "provider_id", "base_url", "url"):
        if name in part.entries:
            place = part.entries[name].place
    model = ModelConfig(
        name=fields.key,
        config=config,
        generation=build_generation(fields),
        requests_per_minute=fields.rate_limit,
        max_concurrent=fields.max_concurrent_requests,
        place=place,
    )
    adapter: AdapterChoice | None = getattr(connection, "adapter", None) or fields.adapter
    return ModelSpec(
        fields.key,
        node.place,
        fields.display_name or fields.key,
        config=model,
        adapter=adapter.key if adapter else None,
        task=fields.task,
    )


def _lacks_value(node: Node) -> bool:
    """Return whether a connection lacks a value that could not be read, which was reported."""
    return node.is_broken or any(scalar.is_broken for _, scalar in walk_scalars(node))


def _build_provider_model(node: Node, problems: Problems) -> ModelSpec | None:
    fields = validate_node(ProviderModel, node, problems, name="the model")
    if fields is None:
        return None
    place = node.entries["$provider"].place
    name = fields.provider
    provider, _, model = name.partition("/")
    if provider == "builtin":
        return ModelSpec(provider_key(name), place, name, name)
    if not _check_provider(provider, place, problems) or _lacks_value(node):
        return None
    address = node.field("base_url")
    connection = ProviderConfig(provider, model, base_url=_read_address(address), api=fields.api)
    if not address.is_null:
        place = address.place
    config = ModelConfig(name, connection, build_generation(fields), place=place)
    return ModelSpec(provider_key(name), node.entries["$provider"].place, name, config=config)


def _check_provider(
    provider: str,
    place: Place,
    problems: Problems,
) -> bool:
    if provider not in PROVIDERS:
        providers = [*PROVIDERS, "builtin"]
        hint = suggest(provider, providers) or f"providers: {listing(providers)}"
        problems.add("E109", f"unknown provider `{provider}`", place, hint)
    return provider in PROVIDERS


def _read_connection(node: Node, problems: Problems) -> Fields | None:
    """Return the fields of a connection, whose kind is stated or else that of a URL."""
    if not node.is_map:
        problems.add("E108", "`config` of a model must be a mapping", node.place)
        return None
    kind = str(node.field("connection_type").value or "custom_connection")
    if kind not in CONNECTIONS:
        hint = suggest(kind, CONNECTIONS) or f"types: {listing(CONNECTIONS)}"
        place = node.at("connection_type").place
        problems.add("E109", f"unknown connection type {kind!r}", place, hint)
        return None
    name = f"`config` of the model (`{kind}`)"
    return validate_node(CONNECTIONS[kind], node, problems, name=name)


def _build_connection(
    fields: Fields,
    node: Node,
    key: str,
    problems: Problems,
) -> Connection | Broken:
    """Return how a model is reached; None for one that is only named."""
    match fields:
        case ProviderConnection():
            place = node.entries["provider_id"].place
            if not _check_provider(fields.provider_id, place, problems):
                return BROKEN
            base = _read_address(node.field("base_url"))
            return ProviderConfig(
                fields.provider_id, fields.model_key, fields.api_key, base, fields.api
            )
        case CustomConnection():
            return _build_custom_connection(fields, node, problems)
        case CustomInference():
            snippet = _read_snippet(fields, node, key, problems)
            if snippet is None:
                return BROKEN
            return InferenceConfig(snippet, fields.environment or {}, fields.timeout)
    return None


def _build_custom_connection(
    fields: CustomConnection,
    node: Node,
    problems: Problems,
) -> CustomConfig:
    certificates = fields.tls_context.validation_context if fields.tls_context else None
    if certificates and certificates.trust_chain_verification == "accept_untrusted":
        hint = "certificates are always checked; put the endpoint's own into `trusted_ca`"
        place = node.entries["tls_context"].place
        problems.add("E116", "`accept_untrusted` is not done", place, hint)
    return CustomConfig(
        address=_read_address(node.entries["url"]) or Address(fields.url),
        model=fields.model_key,
        api=fields.api or "chat",
        api_key=fields.api_key,
        headers=fields.custom_headers or {},
        trusted_ca=certificates.trusted_ca if certificates else None,
    )


def _read_snippet(
    fields: CustomInference,
    node: Node,
    key: str,
    problems: Problems,
) -> Snippet | None:
    """Return the snippet of a model, under either of its two names."""
    if fields.adapter is not None and fields.adapter.key not in OWN_ADAPTERS:
        hint = "the snippet is given the messages and returns a chat completion: convert both in it"
        message = "an adapter of your own in `custom_inference` is not done"
        problems.add("E116", message, node.entries["adapter"].place, hint)
    names = [name for name in _SNIPPETS if name in node.entries]
    if len(names) > 1:
        message = "`snippet` and `run_inference_snippet` are two names of one field"
        problems.add("E108", message, node.key_place(names[1]), "leave one of them out")
    elif not names and not node.is_broken:
        message = "`snippet` is missing in `config` of the model (`custom_inference`)"
        problems.add("E108", message, node.place)
    if len(names) != 1 or getattr(fields, names[0]) is None:
        return None
    source = getattr(fields, names[0])
    snippet = Snippet(INFERENCE_FUNCTION, source, node.entries[names[0]].place, key)
    if names[0] == "run_inference_snippet" and check_snippet(snippet) is not None:
        return replace(snippet, function=LATER_INFERENCE_FUNCTION)  # it defines the other one
    return snippet


def _read_address(node: Node) -> Address | None:
    if not node.is_scalar or node.is_null:
        return None
    return Address(str(node.value), node.style == "caller")


def build_generation(fields: ModelFields | ProviderModel | SpecificationFields) -> Generation:
    """Return how a model is to generate; `extra_body` may stand in `generation`, too."""
    parameters: dict[str, Any] = {}
    if fields.generation is not None:
        parameters = fields.generation.model_dump(exclude_none=True)
    if fields.extra_body is not None:
        parameters["extra_body"] = {**parameters.get("extra_body", {}), **fields.extra_body}
    if isinstance(parameters.get("stop"), str):
        parameters["stop"] = (parameters["stop"],)
    elif "stop" in parameters:
        parameters["stop"] = tuple(parameters["stop"])
    return Generation(**parameters)


def build_adapter(node: Node, problems: Problems) -> Adapter | None:
    """Return a model adapter that is well formed."""
    fields = validate_node(AdapterFields, node, problems, name="the model adapter")
    if fields is None:
        return None
    request = fields.process_input.source_code
    adapter = Adapter(fields.key, request, fields.process_output.source_code)
    for name, source, names in adapter.parts():
        language = node.at(name, "language")
        if language.value == "python":
            hint = "write it in Jinja, or use `connection_type: custom_inference`"
            message = "an adapter in `python` is not in this release"
            problems.add("E116", message, language.place, hint)
            continue
        try:
            Template.compile(source, names=names)
        except SpecError as error:
            report_text(error, node.at(name, "source_code"), problems)
    return adapter
