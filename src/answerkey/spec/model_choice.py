"""Which model a reference means, and whether it can be asked; adapters of the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from answerkey.errors import Place, SpecError, listing, suggest
from answerkey.models import (
    Adapter,
    Caller,
    CustomConfig,
    Generation,
    InferenceConfig,
    ModelConfig,
    connect,
    is_live,
    open_model,
    read_name,
)
from answerkey.sandbox import Snippet, check_snippet
from answerkey.spec.connections import OWN_ADAPTERS, ModelSpec
from answerkey.spec.findings import Findings
from answerkey.spec.nodes import Node, ScalarNode, find_node
from answerkey.spec.shapes import AdapterFields
from answerkey.spec.validation import validate_node
from answerkey.templates import Template


@dataclass(frozen=True)
class Choice:
    """A reference to a model: where it stands, whether the caller wrote it, and how it is to generate."""

    reference: str
    place: Place
    is_callers: bool = False
    generation: Generation = field(default_factory=Generation)


def _require_function(snippet: Snippet) -> None:
    error = check_snippet(snippet)
    if error is not None:
        raise error


def build_adapter(node: Node, findings: Findings) -> Adapter | None:
    """Return a model adapter that is well formed."""
    fields = validate_node(AdapterFields, node, findings, name="the model adapter")
    if fields is None:
        return None
    adapter = Adapter(fields.key, fields.process_input.source_code, fields.process_output.source_code)
    for name, source, names in adapter.parts():
        part = getattr(fields, name)
        if part.language != "jinja":
            where = find_node(node, (name, "language"))[0].place
            hint = "write it in Jinja, or use `connection_type: custom_inference`"
            findings.add("E116", f"an adapter in `{part.language}` is not in this release", where, hint)
            continue
        _check_template(source, names, find_node(node, (name, "source_code"))[0], findings)
    return adapter


def _check_template(source: str, names: tuple[str, ...], node: Node, findings: Findings) -> None:
    try:
        Template.compile(source, names=names)
    except SpecError as error:
        line = error.where.line if error.where else None
        where = node.place_of_line(line) if isinstance(node, ScalarNode) else node.place
        findings.report(SpecError(error.code, error.message, where=where, hint=error.hint))


def check_adapters(
    models: Mapping[str, ModelSpec], adapters: Mapping[str, Adapter], findings: Findings
) -> None:
    """Report models that name an adapter which is neither built in nor defined."""
    known = OWN_ADAPTERS | adapters.keys()
    for model in models.values():
        if model.adapter is not None and model.adapter not in known:
            hint = suggest(model.adapter, known) or f"adapters: {listing(sorted(known))}"
            findings.add("E113", f"model adapter `{model.adapter}` is not defined", model.place, hint)


@dataclass(frozen=True)
class Models:
    """The models that a reference can mean, their adapters, and on whose behalf they are asked."""

    known: Mapping[str, ModelSpec]
    adapters: Mapping[str, Adapter]
    caller: Caller

    def find(self, choice: Choice) -> str | ModelConfig:
        """Return the model that a reference means; raises SpecError when it means none."""
        name = choice.reference
        if name not in self.known and "/" not in name and ":" not in name:
            hint = (
                suggest(name, self.known) or f"models: {listing(self.known)}; or name one as `builtin/random`"
            )
            raise SpecError("E113", f"model `{name}` is not defined", where=choice.place, hint=hint)
        try:
            return self._read(choice)
        except SpecError as error:
            raise SpecError(error.code, error.message, where=choice.place, hint=error.hint) from None

    def choose(self, choice: Choice) -> str | ModelConfig:
        """Return a model that can be asked, for `open_model`; raises SpecError for one that cannot."""
        model = self.find(choice)
        spec = self.known.get(choice.reference)
        if spec is not None and spec.task == "embeddings":
            message = f"model `{choice.reference}` gives embeddings: it cannot be asked questions"
            raise SpecError("E301", message, where=choice.place)
        if isinstance(model, str):
            return model
        model = replace(model, generation=choice.generation.over(model.generation))
        if isinstance(model.config, InferenceConfig):
            _require_function(model.config.snippet)
        else:
            connect(model)
        return model

    def _read(self, choice: Choice) -> str | ModelConfig:
        spec = self.known.get(choice.reference)
        if spec is None or spec.config is None:
            name = choice.reference if spec is None or spec.name is None else spec.name
            if is_live(name):
                return read_name(name, caller=self.caller, is_callers=choice.is_callers, place=choice.place)
            open_model(name)
            return name
        config = spec.config.config
        if isinstance(config, CustomConfig) and spec.adapter is not None:
            config = replace(config, adapter=self.adapters.get(spec.adapter))
        return replace(spec.config, config=config, caller=self.caller)
