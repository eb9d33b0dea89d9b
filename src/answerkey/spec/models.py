"""Build callable models from model files, provider names and adapters."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import Field

from answerkey.errors import Place, SpecError
from answerkey.models.config import (
    INFERENCE_FUNCTION,
    LATER_INFERENCE_FUNCTION,
    Adapter,
    Address,
    CustomConfig,
    Effort,
    Generation,
    InferenceConfig,
    ModelConfig,
    ProviderConfig,
    Thinking,
)
from answerkey.models.names import PROVIDERS, ApiName
from answerkey.sandbox import Snippet, check_snippet
from answerkey.spec.config import refuse_config
from answerkey.spec.nodes import Json, Node, advise
from answerkey.spec.shapes import (
    Count,
    Described,
    Reference,
    TaskKind,
    part,
)
from answerkey.spec.validation import (
    Fields,
    Number,
    SecretText,
    Text,
    Whole,
    report_text,
    validate_node,
)
from answerkey.templates import Template

#: Adapters that need not be defined: with them the endpoint has the chat API.
OWN_ADAPTERS = frozenset(
    {"latticeflow$identity", "latticeflow$openai_chat_completion", "latticeflow$openai"}
)


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
    """The certificates that an endpoint may have: the system's, or those of `trusted_ca` (PEM)."""

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
    """A model that is only named and cannot be called."""

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


class GenerationFields(Fields):
    """The generation parameters of a model."""

    temperature: Annotated[Number, Field(ge=0)] | None = None
    top_p: Annotated[Number, Field(ge=0, le=1)] | None = None
    max_tokens: Count | None = None
    seed: Whole | None = None
    stop: Text | list[Text] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[Whole, Field(ge=0)] | None = None
    echo: bool | None = None
    reasoning_effort: Effort | None = None
    thinking: Thinking | None = None
    extra_body: Json | None = None


class ModelFields(Described):
    """A model file."""

    key: Reference
    rate_limit: Annotated[Number, Field(gt=0)] | None = None
    max_concurrent_requests: Count | None = None
    task: TaskKind = "chat_completion"
    adapter: AdapterChoice | None = None
    config: Annotated[Any, part("connection")]
    generation: GenerationFields | None = None
    extra_body: Json | None = None


class ProviderModel(Fields):
    """A model named by its provider, or a built-in one."""

    provider: Annotated[Text, Field(alias="$provider", pattern=r"^[^/]+/.+$")]
    display_name: Text | None = None
    base_url: Text | None = None
    api: ApiName | None = None
    generation: GenerationFields | None = None
    extra_body: Json | None = None


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
    provider, _, model = name.lower().partition("/")
    parts = [re.sub(r"[^a-z0-9_-]+", "-", part) for part in (provider, model)]
    return "$".join(parts)


def build_model(node: Node) -> ModelSpec | None:
    """Return the model of a model file or of an entry of `models`."""
    refuse_config(node)
    if "$provider" in node.entries:
        return _build_provider_model(node)
    fields = validate_node(ModelFields, node, "the model")
    if "config" not in node.entries:
        return None
    part = node.entries["config"]
    earlier = len(node.problems.errors)
    connection = _read_connection(part)
    if connection is None:
        return None
    config = _build_connection(connection, part, node.key or "")
    if fields is None or len(node.problems.errors) > earlier:
        return None
    place = node.place
    for name in ("connection_type", "provider_id", "base_url", "url"):
        if name in part.entries:
            place = part.entries[name].place
    model = ModelConfig(
        name=fields.key,
        config=config,
        generation=build_generation(fields.generation, fields.extra_body),
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


def _build_provider_model(node: Node) -> ModelSpec | None:
    fields = validate_node(ProviderModel, node, "the model")
    if fields is None:
        return None
    reference = node.entries["$provider"]
    name = fields.provider
    provider, _, model = name.partition("/")
    if provider == "builtin":
        return ModelSpec(provider_key(name), reference.place, name, name)
    if not _check_provider(provider, reference):
        return None
    address = node.field("base_url")
    place = reference.place if address.is_null else address.place
    connection = ProviderConfig(provider, model, base_url=_read_address(address), api=fields.api)
    generation = build_generation(fields.generation, fields.extra_body)
    config = ModelConfig(name, connection, generation, place=place)
    return ModelSpec(provider_key(name), reference.place, name, config=config)


def _check_provider(provider: str, node: Node) -> bool:
    if provider not in PROVIDERS:
        providers = [*PROVIDERS, "builtin"]
        hint = advise(provider, providers, "providers")
        node.report("E109", f"unknown provider `{provider}`", hint)
    return provider in PROVIDERS


def _read_connection(node: Node) -> Fields | None:
    """Return the fields of a connection, whose kind is stated or else that of a URL."""
    kind = node.field("connection_type")
    name = str(kind.value or "custom_connection")
    if name not in CONNECTIONS:
        hint = advise(name, CONNECTIONS, "types")
        kind.report("E109", f"unknown connection type {name!r}", hint)
        return None
    return validate_node(CONNECTIONS[name], node, f"`config` of the model (`{name}`)")


def _build_connection(
    fields: Fields,
    node: Node,
    key: str,
) -> ProviderConfig | CustomConfig | InferenceConfig | None:
    """Return how a model is reached; None for one that is only named, or cannot be reached."""
    match fields:
        case ProviderConnection():
            _check_provider(fields.provider_id, node.entries["provider_id"])
            base = _read_address(node.field("base_url"))
            return ProviderConfig(
                fields.provider_id, fields.model_key, fields.api_key, base, fields.api
            )
        case CustomConnection():
            certificates = fields.tls_context and fields.tls_context.validation_context
            if certificates and certificates.trust_chain_verification == "accept_untrusted":
                hint = "certificates are always checked; put the endpoint's own into `trusted_ca`"
                node.entries["tls_context"].report(
                    "E116", "`accept_untrusted` is not supported", hint
                )
            return CustomConfig(
                address=_read_address(node.entries["url"]) or Address(fields.url),
                model=fields.model_key,
                api=fields.api or "chat",
                api_key=fields.api_key,
                headers=fields.custom_headers or {},
                trusted_ca=certificates.trusted_ca if certificates else None,
            )
        case CustomInference():
            snippet = _read_snippet(fields, node, key)
            if snippet is not None:
                return InferenceConfig(snippet, fields.environment or {}, fields.timeout)
    return None


def _read_snippet(fields: CustomInference, node: Node, key: str) -> Snippet | None:
    """Return the snippet of a model, under either of its two names."""
    if fields.adapter is not None and fields.adapter.key not in OWN_ADAPTERS:
        hint = "the snippet is given the messages and returns a chat completion: convert both in it"
        message = "an adapter of your own in `custom_inference` is not supported"
        node.entries["adapter"].report("E116", message, hint)
    source = fields.snippet or fields.run_inference_snippet
    if source is None or (fields.snippet and fields.run_inference_snippet):
        message = "`custom_inference` needs `snippet` or, its other name, `run_inference_snippet`"
        node.report("E108", message, "write one of them")
        return None
    name = "snippet" if fields.snippet else "run_inference_snippet"
    snippet = Snippet(INFERENCE_FUNCTION, source, node.entries[name].place, key)
    if fields.run_inference_snippet and check_snippet(snippet) is not None:
        return replace(snippet, function=LATER_INFERENCE_FUNCTION)  # it defines the other one
    return snippet


def _read_address(node: Node) -> Address | None:
    if not node.is_scalar or node.is_null:
        return None
    return Address(str(node.value), node.style == "caller")


def build_generation(fields: GenerationFields | None, extra_body: Json | None) -> Generation:
    """Return the generation parameters; `extra_body` may be in `generation`, too."""
    parameters: Json = {}
    if fields is not None:
        parameters = fields.model_dump(exclude_none=True)
    if extra_body is not None:
        body = parameters.get("extra_body", {})
        parameters["extra_body"] = {**body, **extra_body}
    stop = parameters.get("stop")
    if isinstance(stop, str):
        parameters["stop"] = (stop,)
    elif stop is not None:
        parameters["stop"] = tuple(stop)
    return Generation(**parameters)


def build_adapter(node: Node) -> Adapter | None:
    """Return a model adapter that is well formed."""
    fields = validate_node(AdapterFields, node, "the model adapter")
    if fields is None:
        return None
    request = fields.process_input.source_code
    adapter = Adapter(fields.key, request, fields.process_output.source_code)
    for name, source, names in adapter.parts():
        language = node.at(name, "language")
        if language.value == "python":
            hint = "write it in Jinja, or use `connection_type: custom_inference`"
            language.report("E116", "an adapter in `python` is not in this release", hint)
            continue
        try:
            Template.compile(source, names=names)
        except SpecError as error:
            report_text(error, node.at(name, "source_code"))
    return adapter
