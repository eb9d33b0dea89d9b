"""Connections to endpoints, and the APIs that endpoints speak.

A new API needs a function that builds its request bodies, a parser in `responses`, and an entry in
`APIS`.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from hashlib import sha256
from typing import Any, ClassVar
from urllib.parse import urlsplit

from answerkey.errors import HIDDEN, SolverError, SpecError, listing
from answerkey.models.config import (
    GENERATION_PARAMETERS,
    SHORTEST_KEY,
    Adapter,
    Generation,
    Price,
    Secret,
    merge_bodies,
    nest,
)
from answerkey.models.images import TYPES, URL, expand_images, write_parts
from answerkey.models.names import ApiName
from answerkey.models.responses import (
    ANSWERED,
    Body,
    Fields,
    Messages,
    cut_raw,
    fail,
    parse_anthropic,
    parse_chat,
    parse_gemini,
    parse_text,
    read_body,
    read_text,
    split_reasoning,
)
from answerkey.templates import JsonText, RowError, Template, TemplateStopped
from answerkey.types import Completion

AZURE_HOSTS = (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")
#: Anthropic requires a limit; this is far more than an answer to a multiple-choice question needs.
DEFAULT_MAX_TOKENS = 4096
CHAT_PATH = "/chat/completions"
#: The number of tokens for which a price is looked up; small enough for the price of an ordinary
#: request.
_PRICED_TOKENS = 1000


@dataclass(frozen=True)
class Connection:
    """Where a model is called, and how.

    `missing_key` is the environment variable of a key that the endpoint will ask for and that is
    not set. `key_source` is what messages call the place of the key. `schema` is the JSON Schema of
    the reply, if the API takes one.
    """

    name: str
    api: Api | AdapterApi
    url: str
    model: str | None = None
    headers: Mapping[str, Secret | str] = field(default_factory=dict)
    key: Secret | None = None
    generation: Generation = field(default_factory=Generation)
    schema: Fields | None = None
    trusted_ca: str | None = None
    max_concurrent: int | None = None
    requests_per_minute: float | None = None
    missing_key: str | None = None
    key_source: str = "the model file"

    @cached_property
    def identity(self) -> str:
        """A hash of everything that determines the replies; it contains no secret."""
        headers = self.headers.items()
        parts = {
            "url": self.url,
            "model": self.model,
            "style": self.api.identity,
            "generation": self.generation.given(),
            "schema": self.schema,
            "headers": {name: value for name, value in headers if isinstance(value, str)},
        }
        text = json.dumps(parts, sort_keys=True, default=str)
        return sha256(text.encode()).hexdigest()

    @property
    def host(self) -> str:
        """The host that is called, as messages name it."""
        return urlsplit(self.url).hostname or self.url

    @cached_property
    def parameters(self) -> Body:
        """The fields of every request body except the messages, as the API names them."""
        parameters: Body = {}
        for parameter, value in self.generation.sent().items():
            if parameter not in {"logprobs", "top_logprobs"}:
                parameters = merge_bodies(parameters, nest(self.api.names[parameter], value))
        if self.schema is not None:
            name = self.api.schema_name
            schema = merge_bodies(_FORMATS[name], nest(name, self.schema))
            parameters = merge_bodies(parameters, schema)
        return parameters

    def build(self, messages: Messages) -> object:
        """Return the JSON body of the request for these messages.

        Raises SolverError E302 if there is none.
        """
        return self.api.build(self, messages)

    def read(self, status: int, body: bytes) -> Completion:
        """Return the completion in a response; never raises.

        A key that the endpoint sends back is hidden. The text is without thoughts, unless they are
        to be kept, and without the JSON around a choice that we asked for.
        """
        if b"\\" in body or any(map(body.__contains__, self._secrets)):
            body = self._hidden.sub(HIDDEN.encode(), body)
        completion = self.api.read(status, body)
        if self.generation.thinking == "keep":
            return completion
        return split_reasoning(completion)

    def reveal_headers(self) -> dict[str, str]:
        """Return the headers as they are sent: the only place that reveals secrets."""
        revealed = {}
        for name, value in self.headers.items():
            revealed[name] = value.reveal() if isinstance(value, Secret) else value
        return revealed

    def require_key(self) -> None:
        """Raise SpecError E117 if the endpoint needs a key and none is set."""
        if self.missing_key is not None:
            raise SpecError(
                "E117",
                f"model `{self.name}` needs a key, and `{self.missing_key}` is not set",
                hint=f"set it in the environment or in `.env`: `{self.missing_key}=…`",
            )

    def require_images(self, kinds: Iterable[str]) -> None:
        """Raise SpecError E301 for kinds of images that the API does not take."""
        unfit = sorted(set(kinds) - self.api.images)
        if not unfit:
            return
        images = "images"
        if self.api.images:
            images = f"images as {listing(unfit)}"
        apis = []
        for name, api in APIS.items():
            if api.images.issuperset(kinds):
                apis.append(name)
        problem = f"{self.api.title} does not take {images}, and the prompts have them"
        hint = f"APIs that do: {listing(apis)}"
        raise SpecError("E301", f"model `{self.name}`: {problem}", hint=hint)

    def require_batches(self) -> None:
        """Raise SpecError E119 for a model that cannot be called in batches."""
        # The ending of the path, for APIs that have batches.
        end = {"chat": CHAT_PATH, "anthropic": "/messages"}.get(self.api.name)
        is_azure = self.host.endswith(AZURE_HOSTS)
        path = urlsplit(self.url).path
        if end is None or is_azure or not path.endswith(end):
            why = f"{self.api.title} at `{self.host}` has no batches that answerkey knows"
            raise SpecError(
                "E119",
                f"`--batch` cannot be used with `{self.name}`: {why}",
                hint="leave `--batch` out; calls are then sent one by one",
            )

    def find_price(self) -> Price | None:
        """Return what a token of the model costs in USD; None if unknown.

        The package `genai-prices`, if installed, knows the models of providers at their own
        addresses.
        """
        try:
            prices: Any = importlib.import_module("genai_prices")
        except ImportError:
            return None
        costs = []
        # The tokens of the prompt cache are part of the input tokens.
        for name in ("output_tokens", "cache_read_tokens", "cache_write_tokens"):
            usage = prices.Usage(input_tokens=_PRICED_TOKENS, **{name: _PRICED_TOKENS})
            try:
                cost = prices.calc_price(
                    usage, model_ref=self.model or "", provider_api_url=self.url
                )
            except LookupError:
                return None
            costs.append(cost)
        prices = [float(cost.input_price) / _PRICED_TOKENS for cost in costs]
        prompt, cached, written = prices
        completion = float(costs[0].output_price) / _PRICED_TOKENS
        return Price(
            prompt,
            completion,
            cached,
            written,
        )

    @property
    def has_secret(self) -> bool:
        """Whether a key, or a header that may hold one, is sent."""
        return any(self._list_secrets())

    def _list_secrets(self) -> list[str]:
        secrets = []
        for value in (*self.headers.values(), self.key):
            if isinstance(value, Secret):
                secrets.append(value.reveal())
        return sorted(secrets, key=len, reverse=True)

    @cached_property
    def _secrets(self) -> list[bytes]:
        """The secrets, longest first, as bytes of a body without backslashes."""
        return [text.encode() for text in self._list_secrets() if len(text) >= SHORTEST_KEY]

    @cached_property
    def _hidden(self) -> re.Pattern[bytes]:
        """A pattern of the secrets, in plain text and in every form that JSON can give them."""

        def match(code: int) -> bytes:
            plain = re.escape(bytes([code]))
            return rb"(?:%b|(?i:\\u%04x)|\\%b)" % (plain, code, plain)

        patterns = [b"".join(map(match, secret)) for secret in self._secrets]
        return re.compile(b"|".join(patterns) or rb"(?!)")


@dataclass(frozen=True)
class Api:
    """An API: how requests are built and responses parsed, where it is, and how a key is sent.

    `path` follows a base URL; `root` is the path of a base URL that has none. `names` maps the
    parameters of `Generation` that the API has to its own names for them; dots lead into objects.
    `schema_name` is where it takes the JSON Schema of the reply, if it does. `images` are the types
    of images that it takes, with `url` if it takes addresses.
    """

    name: ApiName
    write: Callable[[Connection, Messages, Body], Body]
    take: Callable[[Fields], Completion]
    path: str
    root: str = "/v1"
    key_header: str = "Authorization"
    key_start: str = "Bearer "
    headers: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    schema_name: str = ""
    images: frozenset[str] = TYPES | {URL}

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"the API `{self.name}`"

    @property
    def identity(self) -> object:
        """Everything about the API that determines the replies."""
        if self.name == "anthropic":
            return [self.name, DEFAULT_MAX_TOKENS]
        return self.name

    @property
    def unsupported(self) -> frozenset[str]:
        """The parameters of `Generation` that the API does not have."""
        return frozenset(GENERATION_PARAMETERS) - frozenset(self.names) - {"thinking"}

    def build(self, connection: Connection, messages: Messages) -> object:
        """Return the JSON body of a request.

        Raises SolverError E302 for messages that do not fit into one.
        """
        body = self.write(connection, messages, dict(connection.parameters))
        return merge_bodies(body, connection.generation.extra_body or {})

    def read(self, status: int, body: bytes) -> Completion:
        """Return the completion in a response; never raises."""
        return read_body(status, body, self.take)


#: The fields that accompany a JSON Schema, by where an API takes it.
_FORMATS: dict[str, Body] = {
    "response_format.json_schema.schema": {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True},
        }
    },
    "responseJsonSchema": {"responseMimeType": "application/json"},
}


def _split_system(messages: Messages) -> tuple[str, list[tuple[str, Fields]]]:
    """Return the system messages as one text, and the other messages with their roles.

    Raises SolverError E302 for a role other than `system`, `user` and `assistant`.
    """
    system = []
    turns = []
    for message in messages:
        role = message.get("role", "user")
        if role in {"system", "developer"}:
            system.append(read_text(message))
        elif role in {"user", "assistant"}:
            turns.append((str(role), message))
        else:
            raise SolverError(
                "E302", f"a message has the role {role!r}, which this API does not take"
            )
    return "\n\n".join(system), turns


def _start_body(connection: Connection, name: str, prompt: object) -> Body:
    if connection.model is None:
        return {name: prompt}
    return {"model": connection.model, name: prompt}


def _write_chat(connection: Connection, messages: Messages, parameters: Body) -> Body:
    generation = connection.generation
    if generation.wants_logprobs:
        parameters["logprobs"] = True
    if generation.top_logprobs is not None:
        parameters["top_logprobs"] = generation.top_logprobs
    if generation.logprobs is False:
        parameters["logprobs"] = False
    return _start_body(connection, "messages", expand_images(messages)) | parameters


def _write_text(connection: Connection, messages: Messages, parameters: Body) -> Body:
    """Write the messages as one text without roles, separated by empty lines.

    In this API, `logprobs` is a number.
    """
    generation = connection.generation
    if generation.wants_logprobs:
        parameters["logprobs"] = generation.top_logprobs
        if generation.top_logprobs is None:
            parameters["logprobs"] = 1
    if generation.echo:
        parameters.setdefault("max_tokens", 1)  # the text after the prompt is not needed
    text = "\n\n".join(read_text(message) for message in messages)
    return _start_body(connection, "prompt", text) | parameters


def _write_anthropic(connection: Connection, messages: Messages, parameters: Body) -> Body:
    system, turns = _split_system(messages)
    body: dict[str, Any] = {
        "model": connection.model,
        "max_tokens": DEFAULT_MAX_TOKENS,
        "messages": [],
    }
    for role, message in turns:
        content = write_parts(message, "anthropic")
        body["messages"].append({"role": role, "content": content})
    if system:
        body["system"] = system
    return body | parameters


def _write_gemini(_: Connection, messages: Messages, parameters: Body) -> Body:
    system, turns = _split_system(messages)
    contents = []
    for role, message in turns:
        name = "model" if role == "assistant" else role
        parts = write_parts(message, "gemini")
        contents.append({"role": name, "parts": parts})
    body: Body = {"contents": contents}
    if system:
        body["systemInstruction"] = {"parts": [{"text": system}]}
    if parameters:
        body["generationConfig"] = parameters
    return body


def _list_names(left_out: str) -> dict[str, str]:
    """Return the parameters that an API calls what we call them: all but one."""
    names = GENERATION_PARAMETERS.keys() - {left_out, "thinking"}
    return {name: name for name in names}


APIS: dict[ApiName, Api] = {
    "chat": Api(
        "chat",
        _write_chat,
        parse_chat,
        CHAT_PATH,
        names=_list_names("echo"),
        schema_name="response_format.json_schema.schema",
    ),
    "completions": Api(
        "completions",
        _write_text,
        parse_text,
        "/completions",
        names=_list_names("reasoning_effort"),
        images=frozenset(),
    ),
    "anthropic": Api(
        "anthropic",
        _write_anthropic,
        parse_anthropic,
        "/messages",
        key_header="x-api-key",
        key_start="",
        headers={"anthropic-version": "2023-06-01"},
        names={
            "temperature": "temperature",
            "top_p": "top_p",
            "max_tokens": "max_tokens",
            "stop": "stop_sequences",
            "reasoning_effort": "output_config.effort",
        },
    ),
    "gemini": Api(
        "gemini",
        _write_gemini,
        parse_gemini,
        "/models/{model}:generateContent",
        root="/v1beta",
        key_header="x-goog-api-key",
        key_start="",
        names={
            "temperature": "temperature",
            "top_p": "topP",
            "max_tokens": "maxOutputTokens",
            "seed": "seed",
            "stop": "stopSequences",
            "reasoning_effort": "thinkingConfig.thinkingLevel",
        },
        schema_name="responseJsonSchema",
        images=TYPES - {"image/gif"},
    ),
}


@dataclass(frozen=True)
class AdapterApi:
    """A user's adapter. It gets `generation` only if its template reads that, or `kwargs`."""

    adapter: Adapter
    info: Fields = field(default_factory=dict)
    name: ClassVar[str] = "adapter"
    path: ClassVar[str] = CHAT_PATH
    schema_name: ClassVar[str] = ""
    names: ClassVar[Mapping[str, str]] = {}
    images: ClassVar[frozenset[str]] = TYPES | {URL}

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"the adapter `{self.adapter.key}`"

    @property
    def unsupported(self) -> frozenset[str]:
        """All parameters of `Generation`, unless the input template reads them."""
        source = self.adapter.process_input
        if "generation" in source or "kwargs" in source:
            return frozenset()
        names = {parameter.name for parameter in fields(Generation)}
        return frozenset(names - {"thinking"})

    @property
    def identity(self) -> object:
        """The templates and what they read about the model."""
        return [
            "adapter",
            self.adapter.process_input,
            self.adapter.process_output,
            dict(self.info),
        ]

    @cached_property
    def _templates(self) -> list[Template]:
        templates = []
        for _, source, names in self.adapter.parts():
            templates.append(Template.compile(source, names=names))
        return templates

    def build(self, connection: Connection, messages: Messages) -> object:
        """Return the request body: the JSON that the input template yields."""
        kwargs = connection.generation.given()
        info = {**self.info, "model_key": connection.model, "generation": kwargs}
        shown = {"messages": expand_images(messages)}
        try:
            written = self._templates[0].evaluate(
                input=shown,
                model_info=info,
                kwargs=kwargs,
            )
            return json.loads(written, strict=False) if isinstance(written, str) else written
        except (RowError, TemplateStopped) as problem:
            reason = problem.message
            hint = problem.hint
        except (ValueError, RecursionError) as error:
            reason = f"its output is not JSON: {error}"
            hint = 'put texts through `tojson`: `"content": {{ message.content | tojson }}`'
        raise SolverError(
            "E302", f"adapter `{self.adapter.key}`, `process_input`: {reason}", hint=hint
        )

    def read(self, status: int, body: bytes) -> Completion:
        """Return what the output template makes of a response.

        The template does not see responses that report an error.
        """
        if status not in ANSWERED:
            return read_body(status, body, parse_chat)
        start = f"adapter `{self.adapter.key}`, `process_output`"
        try:
            text = JsonText(body.decode("utf-8-sig"))
            made = self._templates[1].evaluate(body=text, status_code=status)
        except UnicodeDecodeError:
            return fail(f"{start}: the body is not UTF-8", body)
        except (RowError, TemplateStopped) as problem:
            return fail(f"{start}: {problem.message}", body)
        written = made if isinstance(made, str) else json.dumps(made, default=str)
        if written.lstrip().startswith('"'):
            # `{{ body | tojson }}` quotes a body that is already text
            with suppress(ValueError, RecursionError):
                written = str(json.loads(written))
        completion = read_body(status, written.encode(errors="replace"), parse_chat)
        if completion.error is None:
            return completion
        return replace(completion, error=f"{start}: {completion.error}", raw=cut_raw(body))
