"""Model files, and models named by their provider, become model specifications.

Live models are read and checked, so that existing files load; asking one is not in this release.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from answerkey.errors import Place, SpecError, listing, suggest
from answerkey.models import open_model
from answerkey.spec.config import refuse_config
from answerkey.spec.findings import Findings
from answerkey.spec.nodes import MapNode, Node, ScalarNode, to_plain
from answerkey.spec.shapes import CONNECTIONS, AdapterFields, ModelFields, ProviderModel
from answerkey.spec.validation import validate_node

PROVIDERS = ("openai", "anthropic", "gemini", "together", "fireworks", "sambanova", "novita")
OWN_ADAPTERS = frozenset({"latticeflow$identity", "latticeflow$openai_chat_completion"})
BUILTIN = "builtin/"
_PROVIDER = "$provider"


@dataclass(frozen=True)
class ModelSpec:
    """A model by key. `name` is what `open_model` takes; None for a live model or a placeholder."""

    key: str
    kind: str
    place: Place
    name: str | None = None
    adapter: str | None = None


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
    fields = validate_node(ModelFields, node, findings, name="the model")
    if not isinstance(node, MapNode):
        return None
    connection = node.get("config")
    kind = _check_connection(connection, findings) if connection is not None else None
    if fields is None or kind is None:
        return None
    return ModelSpec(fields.key, kind, node.place, adapter=_adapter_of(connection))


def _adapter_of(connection: Node | None) -> str | None:
    adapter = connection.get("adapter") if isinstance(connection, MapNode) else None
    key = adapter.get("key") if isinstance(adapter, MapNode) else None
    return str(to_plain(key)) if key is not None else None


def _build_provider_model(node: MapNode, findings: Findings) -> ModelSpec | None:
    fields = validate_node(ProviderModel, node, findings, name="the model")
    if fields is None:
        return None
    place = node.entries[_PROVIDER].place
    name = fields.provider
    if name.startswith(BUILTIN):
        return ModelSpec(provider_key(name), "builtin", place, name)
    provider = name.partition("/")[0]
    if provider not in PROVIDERS:
        known = [*PROVIDERS, "builtin"]
        hint = suggest(provider, known) or f"providers: {listing(known)}"
        findings.add("E109", f"unknown provider `{provider}`", place, hint)
        return None
    return ModelSpec(provider_key(name), "provider_connection", place)


def _check_connection(node: Node, findings: Findings) -> str | None:
    """Return the kind of a connection that is well formed."""
    if not isinstance(node, MapNode):
        findings.add("E108", "`config` of a model must be a mapping", node.place)
        return None
    stated = node.get("connection_type")
    kind = str(stated.value) if isinstance(stated, ScalarNode) else "custom_connection"
    if kind not in CONNECTIONS:
        where = stated.place if stated is not None else node.place
        hint = suggest(kind, CONNECTIONS) or f"types: {listing(CONNECTIONS)}"
        findings.add("E109", f"unknown connection type {kind!r}", where, hint)
        return None
    fields = validate_node(CONNECTIONS[kind], node, findings, name=f"`config` of the model (`{kind}`)")
    provider = node.get("provider_id")
    if kind == "provider_connection" and isinstance(provider, ScalarNode) and provider.value not in PROVIDERS:
        hint = suggest(str(provider.value), PROVIDERS) or f"providers: {listing(PROVIDERS)}"
        findings.add("E109", f"unknown provider {provider.value!r}", provider.place, hint)
    return None if fields is None else kind


def build_adapter(node: Node, findings: Findings) -> str | None:
    """Return the key of a model adapter that is well formed."""
    fields = validate_node(AdapterFields, node, findings, name="the model adapter")
    return None if fields is None else fields.key


def check_adapters(models: Mapping[str, ModelSpec], adapters: set[str], findings: Findings) -> None:
    """Report models that name an adapter which is neither built in nor defined."""
    known = adapters | OWN_ADAPTERS
    for model in models.values():
        if model.adapter is not None and model.adapter not in known:
            hint = suggest(model.adapter, known) or f"adapters: {listing(sorted(known))}"
            findings.add("E113", f"model adapter `{model.adapter}` is not defined", model.place, hint)


def choose_model(reference: str, models: Mapping[str, ModelSpec], place: Place) -> str:
    """Return the name for `open_model` of a model that is asked; raises for one that cannot be."""
    model = models.get(reference)
    if model is None and "/" not in reference and ":" not in reference:
        hint = suggest(reference, models) or f"models: {listing(models)}; or name one as `builtin/random`"
        raise SpecError("E113", f"model `{reference}` is not defined", where=place, hint=hint)
    if model is not None and model.name is None:
        raise _refuse_live(reference, model, place)
    name = reference if model is None or model.name is None else model.name
    try:
        open_model(name)
    except SpecError as error:
        raise SpecError(error.code, error.message, where=place, hint=error.hint) from None
    return name


def _refuse_live(reference: str, model: ModelSpec, place: Place) -> SpecError:
    hint = "bring recorded completions with `--completions FILE`, or choose a model such as `builtin/random`"
    if model.kind == "placeholder":
        return SpecError(
            "E116", f"model `{reference}` is a placeholder: it cannot be asked", where=place, hint=hint
        )
    message = f"model `{reference}` is a live model, and those are not in this release"
    return SpecError("E116", message, where=place, hint=hint)
