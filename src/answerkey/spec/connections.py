"""Model files, and models named by their provider, become models that can be asked."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from answerkey.errors import Place, listing, suggest
from answerkey.models import (
    INFERENCE_FUNCTION,
    LATER_INFERENCE_FUNCTION,
    PROVIDERS,
    Address,
    CustomConfig,
    Generation,
    InferenceConfig,
    ModelConfig,
    PlaceholderConfig,
    ProviderConfig,
    Tls,
)
from answerkey.sandbox import Snippet, check_snippet
from answerkey.spec import shapes
from answerkey.spec.config import refuse_config
from answerkey.spec.fields import Fields
from answerkey.spec.findings import Findings
from answerkey.spec.nodes import MapNode, Node, ScalarNode, holds_broken, to_plain
from answerkey.spec.validation import validate_node

BUILTIN = "builtin/"
#: Adapters that need not be defined: with them the endpoint speaks the chat API.
OWN_ADAPTERS = frozenset({"latticeflow$identity", "latticeflow$openai_chat_completion", "latticeflow$openai"})
_PROVIDER = "$provider"


@dataclass(frozen=True)
class ModelSpec:
    """A model by key: a name for `open_model`, or a config that lacks only its adapter and the caller.

    `title` is how it is shown where recorded completions are its own.
    """

    key: str
    place: Place
    title: str
    name: str | None = None
    config: ModelConfig | None = None
    adapter: str | None = None
    task: shapes.TaskKind = "chat_completion"


def provider_key(name: str) -> str:
    """Return the key of a provider model: `openai/GPT-4.1` is `openai$gpt-4-1`."""
    provider, _, model = name.partition("/")
    return f"{_tidy(provider)}${_tidy(model)}"


def _tidy(text: str) -> str:
    return re.sub(r"[^a-z0-9_-]+", "-", text.lower())


def build_model(node: Node, findings: Findings) -> ModelSpec | None:
    """Return the model of a model file or of an entry of `models`."""
    refuse_config(node, findings)
    if isinstance(node, MapNode) and _PROVIDER in node.entries:
        return _build_provider_model(node, findings)
    fields = validate_node(shapes.ModelFields, node, findings, name="the model")
    if not isinstance(node, MapNode):
        return None
    part = node.get("config")
    connection = _read_connection(part, findings) if part is not None else None
    if fields is None or connection is None or not isinstance(part, MapNode) or _is_open(part):
        return None
    config = ModelConfig(
        name=fields.key,
        config=_build_config(connection, part, fields.key, findings),
        generation=build_generation(fields.generation),
        requests_per_minute=fields.rate_limit,
        tokens_per_minute=fields.tokens_per_minute,
        max_concurrent=fields.max_concurrent_requests,
        place=_find_place(part, node),
    )
    adapter = getattr(connection, "adapter", None) or fields.adapter
    named = adapter.key if adapter else None
    return ModelSpec(
        fields.key, node.place, fields.display_name, config=config, adapter=named, task=fields.task
    )


def _is_open(node: MapNode) -> bool:
    """Return whether a connection lacks a value that could not be had, as was reported."""
    return node.is_broken or holds_broken(to_plain(node))


def _find_place(connection: MapNode, model: MapNode) -> Place:
    """Return where a model says whom it asks."""
    for name in ("url", "base_url", "provider_id", "connection_type"):
        if name in connection.entries:
            return connection.entries[name].place
    return model.place


def _build_provider_model(node: MapNode, findings: Findings) -> ModelSpec | None:
    fields = validate_node(shapes.ProviderModel, node, findings, name="the model")
    if fields is None:
        return None
    place, name = node.entries[_PROVIDER].place, fields.provider
    key = provider_key(name)
    if name.startswith(BUILTIN):
        return ModelSpec(key, place, name, name)
    provider, _, model = name.partition("/")
    if not _check_provider(provider, place, findings) or _is_open(node):
        return None
    base = _read_address(node.get("base_url"))
    config = ProviderConfig(provider, model, base_url=base, api=fields.api)
    where = node.entries["base_url"].place if base else place
    built = ModelConfig(name, config, build_generation(fields.generation), place=where)
    return ModelSpec(key, place, name, config=built)


def _check_provider(provider: str, place: Place, findings: Findings) -> bool:
    if provider in PROVIDERS:
        return True
    known = [*PROVIDERS, "builtin"]
    hint = suggest(provider, known) or f"providers: {listing(known)}"
    findings.add("E109", f"unknown provider `{provider}`", place, hint)
    return False


def _read_connection(node: Node, findings: Findings) -> Fields | None:
    """Return the fields of a connection that is well formed."""
    if not isinstance(node, MapNode):
        findings.add("E108", "`config` of a model must be a mapping", node.place)
        return None
    stated = node.get("connection_type")
    kind = str(stated.value) if isinstance(stated, ScalarNode) else "custom_connection"
    if kind not in shapes.CONNECTIONS:
        where = stated.place if stated is not None else node.place
        hint = suggest(kind, shapes.CONNECTIONS) or f"types: {listing(shapes.CONNECTIONS)}"
        findings.add("E109", f"unknown connection type {kind!r}", where, hint)
        return None
    name = f"`config` of the model (`{kind}`)"
    fields = validate_node(shapes.CONNECTIONS[kind], node, findings, name=name)
    if isinstance(fields, shapes.ProviderConnection):
        place = node.entries["provider_id"].place
        return fields if _check_provider(fields.provider_id, place, findings) else None
    if isinstance(fields, shapes.CustomInference):
        return fields if _check_inference(fields, node, findings) else None
    return fields


def _check_inference(fields: shapes.CustomInference, node: MapNode, findings: Findings) -> bool:
    """Return whether a connection has one snippet; report that, and an adapter that would not be used."""
    given = [name for name in ("snippet", "run_inference_snippet") if getattr(fields, name) is not None]
    if fields.adapter is not None and fields.adapter.key not in OWN_ADAPTERS:
        hint = "the snippet is given the messages and returns a chat completion: convert both in it"
        where = node.entries["adapter"].place
        findings.add("E116", "an adapter of your own in `custom_inference` is not done", where, hint)
    if len(given) == 1:
        return True
    if given:
        message = "`snippet` and `run_inference_snippet` are two names of one field"
        findings.add("E108", message, node.key_place("run_inference_snippet"), "leave one of them out")
    elif not node.is_broken and not node.entries.keys() & {"snippet", "run_inference_snippet"}:
        findings.add("E108", "`snippet` is missing in `config` of the model (`custom_inference`)", node.place)
    return False


Config = ProviderConfig | CustomConfig | InferenceConfig | PlaceholderConfig


def _build_config(fields: Fields, node: MapNode, key: str, findings: Findings) -> Config:
    if isinstance(fields, shapes.ProviderConnection):
        base = _read_address(node.get("base_url"))
        return ProviderConfig(fields.provider_id, fields.model_key, fields.api_key, base, fields.api)
    if isinstance(fields, shapes.CustomConnection):
        return CustomConfig(
            address=_read_address(node.entries["url"]) or Address(fields.url),
            model=fields.model_key,
            api=fields.api or "chat",
            api_key=fields.api_key,
            headers=fields.custom_headers or {},
            tls=_build_tls(fields.tls_context, node, findings),
        )
    if isinstance(fields, shapes.CustomInference):
        snippet = _choose_function(str(fields.snippet or fields.run_inference_snippet), node, key)
        return InferenceConfig(snippet, fields.environment or {}, fields.timeout)
    return PlaceholderConfig()


def _choose_function(source: str, node: MapNode, key: str) -> Snippet:
    """Return the snippet of a model, with the one of the two functions that it defines."""
    place = node.entries["snippet" if "snippet" in node.entries else "run_inference_snippet"].place
    snippet = Snippet(INFERENCE_FUNCTION, source, place, key)
    if "snippet" in node.entries or check_snippet(snippet) is None:
        return snippet
    return replace(snippet, function=LATER_INFERENCE_FUNCTION)


def _read_address(node: Node | None) -> Address | None:
    if not isinstance(node, ScalarNode) or node.value is None:
        return None
    return Address(str(node.value), node.is_callers)


def _build_tls(context: shapes.TlsContext | None, node: MapNode, findings: Findings) -> Tls | None:
    validation = context.validation_context if context else None
    if validation is None:
        return None
    if validation.trust_chain_verification == "accept_untrusted":
        hint = "certificates are always checked; put the endpoint's own into `trusted_ca`"
        findings.add("E116", "`accept_untrusted` is not done", node.entries["tls_context"].place, hint)
    return Tls(validation.trusted_ca)


def build_generation(fields: shapes.Generation | None) -> Generation:
    """Return how a model is to generate, as files say it."""
    if fields is None:
        return Generation()
    given = fields.model_dump(exclude_none=True)
    stop = given.pop("stop", None)
    stops = None if stop is None else (stop,) if isinstance(stop, str) else tuple(stop)
    return replace(Generation(**given), stop=stops)
