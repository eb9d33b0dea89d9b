"""Model files, models named by their provider, and adapters become models that can be called."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import Field

from answerkey.errors import Place, SpecError, listing, suggest
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
from answerkey.spec.nodes import Node, Problems, walk_scalars
from answerkey.spec.shapes import Count, Described, Reference, SpecificationFields, TaskKind, part
from answerkey.spec.shapes import Generation as GenerationFields
from answerkey.spec.validation import Fields, Number, SecretText, Text, report_text, validate_node
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
    """Which certificates an endpoint may show: those of the system, or of `trusted_ca` (PEM
    text).
    """

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
    tokens_per_minute: Annotated[Number, Field(gt=0)] | None = None
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
    """A model by key: a name for `open_model`, or a config that lacks only its adapter and the
    caller.

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
    part = node.get("config")
    connected = _build_connection(part, node.key or "", problems) if part is not None else None
    if fields is None or part is None or connected is None:
        return None
    says_where = ("url", "base_url", "provider_id", "connection_type")
    connection, adapter = connected
    config = ModelConfig(
        name=fields.key,
        config=connection,
        generation=build_generation(fields),
        requests_per_minute=fields.rate_limit,
        tokens_per_minute=fields.tokens_per_minute,
        max_concurrent=fields.max_concurrent_requests,
        place=next((part.entries[name] for name in says_where if name in part.entries), node).place,
    )
    chosen = adapter or fields.adapter
    named = chosen.key if chosen else None
    title = fields.display_name or fields.key
    return ModelSpec(fields.key, node.place, title, config=config, adapter=named, task=fields.task)


def _is_open(node: Node) -> bool:
    """Return whether a connection lacks a value that could not be had, as was reported."""
    return node.is_broken or any(scalar.is_broken for _, scalar in walk_scalars(node))


def _build_provider_model(node: Node, problems: Problems) -> ModelSpec | None:
    fields = validate_node(ProviderModel, node, problems, name="the model")
    if fields is None:
        return None
    place, name = node.entries["$provider"].place, fields.provider
    provider, _, model = name.partition("/")
    if provider == "builtin":
        return ModelSpec(provider_key(name), place, name, name)
    if not _check_provider(provider, place, problems) or _is_open(node):
        return None
    base = _read_address(node.field("base_url"))
    config = ProviderConfig(provider, model, base_url=base, api=fields.api)
    where = node.entries["base_url"].place if base else place
    built = ModelConfig(name, config, build_generation(fields), place=where)
    return ModelSpec(provider_key(name), place, name, config=built)


def _check_provider(provider: str, place: Place, problems: Problems) -> bool:
    if provider not in PROVIDERS:
        known = [*PROVIDERS, "builtin"]
        hint = suggest(provider, known) or f"providers: {listing(known)}"
        problems.add("E109", f"unknown provider `{provider}`", place, hint)
    return provider in PROVIDERS


def _build_connection(
    node: Node, key: str, problems: Problems
) -> tuple[Connection, AdapterChoice | None] | None:
    """Return how a model is reached and the adapter it names; None when that is not well formed."""
    if not node.is_map:
        problems.add("E108", "`config` of a model must be a mapping", node.place)
        return None
    stated = node.get("connection_type")
    kind = str(stated.value) if stated is not None and stated.is_scalar else "custom_connection"
    if kind not in CONNECTIONS:
        hint = suggest(kind, CONNECTIONS) or f"types: {listing(CONNECTIONS)}"
        problems.add(
            "E109", f"unknown connection type {kind!r}", node.at("connection_type").place, hint
        )
        return None
    name, places = (
        f"`config` of the model (`{kind}`)",
        {key: one.place for key, one in node.entries.items()},
    )
    fields = validate_node(CONNECTIONS[kind], node, problems, name=name)
    match fields:
        case PlaceholderConnection():
            return None, None
        case ProviderConnection(provider_id=provider):
            if not _check_provider(provider, places["provider_id"], problems) or _is_open(node):
                return None
            base = _read_address(node.field("base_url"))
            return ProviderConfig(
                provider, fields.model_key, fields.api_key, base, fields.api
            ), None
        case CustomConnection(adapter=adapter):
            validation = fields.tls_context.validation_context if fields.tls_context else None
            if validation is not None and validation.trust_chain_verification == "accept_untrusted":
                hint = "certificates are always checked; put the endpoint's own into `trusted_ca`"
                problems.add("E116", "`accept_untrusted` is not done", places["tls_context"], hint)
            config = CustomConfig(
                address=_read_address(node.entries["url"]) or Address(fields.url),
                model=fields.model_key,
                api=fields.api or "chat",
                api_key=fields.api_key,
                headers=fields.custom_headers or {},
                trusted_ca=None if validation is None else validation.trusted_ca,
            )
            return None if _is_open(node) else (config, adapter)
        case CustomInference(adapter=adapter):
            if adapter is not None and adapter.key not in OWN_ADAPTERS:
                hint = (
                    "the snippet is given the messages and returns a chat completion: "
                    "convert both in it"
                )
                message = "an adapter of your own in `custom_inference` is not done"
                problems.add("E116", message, places["adapter"], hint)
            snippets = {
                one: source for one in _SNIPPETS if (source := getattr(fields, one)) is not None
            }
            if len(snippets) > 1:
                message = "`snippet` and `run_inference_snippet` are two names of one field"
                where = node.key_place("run_inference_snippet")
                problems.add("E108", message, where, "leave one of them out")
            elif not snippets and not node.is_broken and not node.entries.keys() & set(_SNIPPETS):
                problems.add("E108", f"`snippet` is missing in {name}", node.place)
            if len(snippets) != 1 or _is_open(node):
                return None
            ((field_name, source),) = snippets.items()
            snippet = Snippet(INFERENCE_FUNCTION, source, places[field_name], key)
            if field_name == "run_inference_snippet" and check_snippet(snippet) is not None:
                snippet = replace(
                    snippet, function=LATER_INFERENCE_FUNCTION
                )  # it defines the other one
            return InferenceConfig(snippet, fields.environment or {}, fields.timeout), adapter
    return None


def _read_address(node: Node) -> Address | None:
    is_stated = node.is_scalar and not node.is_null
    return Address(str(node.value), node.style == "caller") if is_stated else None


def build_generation(
    fields: ModelFields | ProviderModel | SpecificationFields,
) -> Generation:
    """Return how a model is to generate, as files say it.

    `extra_body` may stand in `generation`, too.
    """
    given = {} if fields.generation is None else fields.generation.model_dump(exclude_none=True)
    if fields.extra_body is not None:
        given["extra_body"] = {**given.get("extra_body", {}), **fields.extra_body}
    if (stop := given.get("stop")) is not None:
        given["stop"] = (stop,) if isinstance(stop, str) else tuple(stop)
    return Generation(**given)


def build_adapter(node: Node, problems: Problems) -> Adapter | None:
    """Return a model adapter that is well formed."""
    fields = validate_node(AdapterFields, node, problems, name="the model adapter")
    if fields is None:
        return None
    adapter = Adapter(
        fields.key, fields.process_input.source_code, fields.process_output.source_code
    )
    for name, source, names in adapter.parts():
        language = getattr(fields, name).language
        if language != "jinja":
            hint = "write it in Jinja, or use `connection_type: custom_inference`"
            message = f"an adapter in `{language}` is not in this release"
            problems.add("E116", message, node.at(name, "language").place, hint)
            continue
        try:
            Template.compile(source, names=names)
        except SpecError as error:
            report_text(error, node.at(name, "source_code"), problems)
    return adapter
