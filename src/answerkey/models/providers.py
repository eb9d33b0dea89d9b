"""Connections, the APIs of endpoints (chat, completions, Anthropic, Gemini, adapters), and providers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from hashlib import sha256
from typing import ClassVar, Literal, Protocol, get_args
from urllib.parse import SplitResult, parse_qs, quote, urlsplit, urlunsplit

from answerkey.errors import HIDDEN, SolverError, SpecError
from answerkey.models.responses import (
    ANSWERED,
    TEXT_PARTS,
    Unreadable,
    cut_raw,
    fail,
    read_body,
    take_anthropic,
    take_chat,
    take_gemini,
    take_text,
)
from answerkey.models.settings import NODE_IP, SHORTEST_KEY, Generation, Secret, put_address, tidy_host
from answerkey.templates import JsonText, RowTrouble, Template, TemplateStopped
from answerkey.types import Completion

Message = Mapping[str, object]

_NEVER = r"(?!)"


class ApiStyle(Protocol):
    """How one API is spoken: what a request's body is, and what the body of its answer says."""

    @property
    def unsupported(self) -> frozenset[str]:
        """The fields of `Generation` that the API does not have."""
        ...

    @property
    def takes_schema(self) -> bool:
        """Whether the API can be asked for JSON of a given shape."""
        ...

    def describe(self) -> object:
        """Return what tells this style from others, as JSON values; part of a connection's identity."""
        ...

    def build(self, connection: Connection, messages: Sequence[Message]) -> object:
        """Return the JSON body of a request; SolverError E302 for messages that cannot be put into one."""
        ...

    def read(self, status: int, headers: Mapping[str, str], body: bytes) -> Completion:
        """Return what an answer says; total: it never raises."""
        ...


@dataclass(frozen=True)
class Tls:
    """How an endpoint proves who it is: certificates (PEM text) that are trusted instead of the system's."""

    trusted_ca: str | None = None


@dataclass(frozen=True)
class Connection:
    """Who is asked, where, and how. `identity` stands for all that decides the answers.

    `missing_key` names the environment value whose key the endpoint will ask for and which is not set.
    `schema` is the JSON Schema that the answer is to have, where the API takes one.
    """

    name: str
    style: ApiStyle
    url: str
    model: str | None = None
    headers: Mapping[str, Secret | str] = field(default_factory=dict)
    key: Secret | None = None
    generation: Generation = field(default_factory=Generation)
    schema: Mapping[str, object] | None = None
    tls: Tls | None = None
    max_concurrent: int | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    missing_key: str | None = None

    @cached_property
    def identity(self) -> str:
        """A hash of everything that decides the answers; no secret is in it."""
        parts = {
            "url": self.url,
            "model": self.model,
            "style": self.style.describe(),
            "generation": self.generation.given(),
            "schema": self.schema,
            "headers": {name: value for name, value in self.headers.items() if isinstance(value, str)},
        }
        return sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()

    @property
    def host(self) -> str:
        """The host that is asked, for messages."""
        return urlsplit(self.url).hostname or self.url

    @property
    def is_per_node(self) -> bool:
        """Whether each node of a cluster asks an endpoint of its own."""
        return self.host == NODE_IP

    def at_node(self, address: str) -> Connection:
        """Return the connection as a node with this address uses it."""
        return replace(self, url=put_address(self.url, address))

    def build(self, messages: Sequence[Message]) -> object:
        """Return the JSON body of the request for these messages; SolverError E302 when there is none."""
        return self.style.build(self, messages)

    def read(self, status: int, headers: Mapping[str, str], body: bytes) -> Completion:
        """Return what an answer says, without a key that the endpoint sends back; never raises."""
        if b"\\" in body or any(map(body.__contains__, self._plain_secrets)):
            body = self._hidden_bytes.sub(HIDDEN.encode(), body)
        return self.style.read(status, headers, body)

    def hide(self, text: str) -> str:
        """Return a text, such as the message of a foreign exception, with every secret in it as `***`."""
        return self._hidden.sub(HIDDEN, text)

    def reveal_headers(self) -> dict[str, str]:
        """Return the headers as they are sent; the one place where secrets leave their cover."""
        return {
            name: value.reveal() if isinstance(value, Secret) else value
            for name, value in self.headers.items()
        }

    def ask_for(self, schema: Mapping[str, object]) -> Connection:
        """Return the connection for answers of a shape; the same one where the API cannot be asked for it."""
        return replace(self, schema=schema) if self.style.takes_schema else self

    def require_key(self) -> None:
        """Raise SpecError E117 when the endpoint will ask for a key and there is none."""
        if self.missing_key is not None:
            hint = f"set it in the environment or in `.env`: `{self.missing_key}=…`"
            message = f"model `{self.name}` needs a key, and `{self.missing_key}` is not set"
            raise SpecError("E117", message, hint=hint)

    def require_address(self) -> None:
        """Raise SpecError E119 when the address is that of a node, and none is meant."""
        if self.is_per_node:
            message = f"model `{self.name}`: `{NODE_IP}` stands for the node of a cluster that asks"
            raise SpecError("E119", message, hint="add `--engine ray`, or write an address in its place")

    @property
    def has_secret(self) -> bool:
        """Whether a key, or a header that may hold one, is sent."""
        return any(isinstance(value, Secret) and value for value in (*self.headers.values(), self.key))

    @cached_property
    def _hidden(self) -> re.Pattern[str]:
        """What is hidden: the secrets, longest first, in plain text and in any form that JSON has for it."""
        texts = sorted(self._secrets, key=len, reverse=True)
        return re.compile("|".join("".join(map(_match_character, text)) for text in texts) or _NEVER)

    @cached_property
    def _hidden_bytes(self) -> re.Pattern[bytes]:
        return re.compile(self._hidden.pattern.encode())

    @cached_property
    def _plain_secrets(self) -> list[bytes]:
        """The secrets as they stand in a body without a backslash."""
        return [text.encode() for text in self._secrets]

    @property
    def _secrets(self) -> set[str]:
        held = [value for value in (*self.headers.values(), self.key) if isinstance(value, Secret)]
        return {secret.reveal() for secret in held if len(secret.reveal()) >= SHORTEST_KEY}


def _match_character(character: str) -> str:
    """Return a pattern for a character of a key, as itself or escaped; keys are ASCII."""
    plain = re.escape(character)
    return f"(?:{plain}|(?i:\\\\u{ord(character):04x})|\\\\{plain})"


#: Who may speak, in the words of the chat API; what a system says stands apart in the other APIs.
SYSTEM_ROLES = frozenset({"system", "developer"})


def read_text(message: Message) -> str:
    """Return the text of a message, parts joined by a newline; SolverError E302 for anything else in it."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence) or isinstance(content, bytes):
        raise SolverError("E302", f"a message's content is not text: {type(content).__name__}")
    return "\n".join(_read_part(part) for part in content)


def _read_part(part: object) -> str:
    if isinstance(part, str):
        return part
    kind = part.get("type", "text") if isinstance(part, Mapping) else None
    text = part.get("text") if isinstance(part, Mapping) else None
    if isinstance(kind, str) and kind in TEXT_PARTS and isinstance(text, str):
        return text
    raise SolverError("E302", f"a part of a message's content is not text: {kind!r}")


def split_system(messages: Sequence[Message]) -> tuple[str | None, list[tuple[str, str]]]:
    """Return what the system says (joined by an empty line), and the others as role and text.

    The roles are `user` and `assistant`; SolverError E302 for another.
    """
    system: list[str] = []
    others: list[tuple[str, str]] = []
    for message in messages:
        role = message.get("role", "user")
        if role in SYSTEM_ROLES:
            system.append(read_text(message))
        elif role in {"user", "assistant"}:
            others.append((str(role), read_text(message)))
        else:
            raise SolverError("E302", f"a message has the role {role!r}, which this API does not take")
    return ("\n\n".join(system) if system else None), others


SCHEMA_NAME = "answer"


@dataclass(frozen=True)
class OpenAiChat:
    """`POST …/chat/completions`; `limit_field` is how the endpoint calls the limit of tokens."""

    limit_field: str = "max_tokens"
    unsupported: ClassVar[frozenset[str]] = frozenset({"echo"})
    takes_schema: ClassVar[bool] = True

    def describe(self) -> object:
        """Return the style's name; how a limit is called decides no answer."""
        return "chat"

    def build(self, connection: Connection, messages: Sequence[Message]) -> dict[str, object]:
        """Return the request's body."""
        body: dict[str, object] = {"messages": [dict(message) for message in messages]}
        if connection.model is not None:
            body = {"model": connection.model, **body}
        given = connection.generation.given()
        if "max_tokens" in given:
            body[self.limit_field] = given.pop("max_tokens")
        if connection.generation.wants_logprobs:
            given["logprobs"] = True
        if connection.schema is not None:
            shape = {"name": SCHEMA_NAME, "schema": dict(connection.schema), "strict": True}
            given["response_format"] = {"type": "json_schema", "json_schema": shape}
        return body | given

    def read(self, status: int, headers: Mapping[str, str], body: bytes) -> Completion:
        """Return what a chat completion says."""
        del headers
        return read_body(status, body, take_chat)


@dataclass(frozen=True)
class OpenAiCompletions:
    """`POST …/completions`: the messages are one plain text, without roles, parted by an empty line."""

    unsupported: ClassVar[frozenset[str]] = frozenset()
    takes_schema: ClassVar[bool] = False

    def describe(self) -> object:
        """Return the style's name."""
        return "completions"

    def build(self, connection: Connection, messages: Sequence[Message]) -> dict[str, object]:
        """Return the request's body; `logprobs` is a number in this API."""
        body: dict[str, object] = {"prompt": "\n\n".join(read_text(message) for message in messages)}
        if connection.model is not None:
            body = {"model": connection.model, **body}
        given = connection.generation.given()
        top = given.pop("top_logprobs", None)
        given.pop("logprobs", None)
        if connection.generation.wants_logprobs:
            given["logprobs"] = 1 if top is None else top
        if connection.generation.echo:
            given.setdefault("max_tokens", 1)  # what comes after the text is of no use
        return body | given

    def read(self, status: int, headers: Mapping[str, str], body: bytes) -> Completion:
        """Return what a text completion says."""
        del headers
        return read_body(status, body, take_text)


OPENAI_CHAT = OpenAiChat()
OPENAI_COMPLETIONS = OpenAiCompletions()


#: The API asks for a limit; this one is far above the length of an answer to a question with choices.
DEFAULT_MAX_TOKENS = 4096
ANTHROPIC_VERSION = "2023-06-01"
_ANTHROPIC_NAMES = {"stop": "stop_sequences"}


@dataclass(frozen=True)
class AnthropicMessages:
    """The system's text stands apart; there is neither a seed nor log probabilities."""

    unsupported: ClassVar[frozenset[str]] = frozenset({"seed", "logprobs", "top_logprobs", "echo"})
    takes_schema: ClassVar[bool] = False

    def describe(self) -> object:
        """Return the style's name and what it sends by itself."""
        return ["anthropic", DEFAULT_MAX_TOKENS]

    def build(self, connection: Connection, messages: Sequence[Message]) -> dict[str, object]:
        """Return the request's body."""
        system, others = split_system(messages)
        body: dict[str, object] = {
            "model": connection.model,
            "max_tokens": DEFAULT_MAX_TOKENS,
            "messages": [{"role": role, "content": text} for role, text in others],
        }
        if system is not None:
            body["system"] = system
        given = connection.generation.given()
        return body | {_ANTHROPIC_NAMES.get(name, name): value for name, value in given.items()}

    def read(self, status: int, headers: Mapping[str, str], body: bytes) -> Completion:
        """Return what a message says."""
        del headers
        return read_body(status, body, take_anthropic)


ANTHROPIC = AnthropicMessages()


_GEMINI_NAMES = {
    "temperature": "temperature",
    "top_p": "topP",
    "max_tokens": "maxOutputTokens",
    "seed": "seed",
    "stop": "stopSequences",
}
_ROLES = {"user": "user", "assistant": "model"}


@dataclass(frozen=True)
class GeminiContent:
    """The model stands in the address, the system's text apart; the assistant is called `model`."""

    unsupported: ClassVar[frozenset[str]] = frozenset({"echo"})
    takes_schema: ClassVar[bool] = True

    def describe(self) -> object:
        """Return the style's name."""
        return "gemini"

    def build(self, connection: Connection, messages: Sequence[Message]) -> dict[str, object]:
        """Return the request's body."""
        system, others = split_system(messages)
        contents = [{"role": _ROLES[role], "parts": [{"text": text}]} for role, text in others]
        body: dict[str, object] = {"contents": contents}
        if system is not None:
            body["systemInstruction"] = {"parts": [{"text": system}]}
        config = _build_config(connection)
        return body | ({"generationConfig": config} if config else {})

    def read(self, status: int, headers: Mapping[str, str], body: bytes) -> Completion:
        """Return what the first candidate says."""
        del headers
        return read_body(status, body, take_gemini)


def _build_config(connection: Connection) -> dict[str, object]:
    generation = connection.generation
    config = {
        _GEMINI_NAMES[name]: value for name, value in generation.given().items() if name in _GEMINI_NAMES
    }
    if generation.wants_logprobs:
        config["responseLogprobs"] = True
        if generation.top_logprobs is not None:
            config["logprobs"] = generation.top_logprobs
    if connection.schema is not None:
        config |= {"responseMimeType": "application/json", "responseJsonSchema": dict(connection.schema)}
    return config


GEMINI = GeminiContent()


INPUT_NAMES = ("input", "model_info", "kwargs")
OUTPUT_NAMES = ("body", "status_code")


@dataclass(frozen=True)
class Adapter:
    """The two templates of an adapter, as they are written."""

    key: str
    process_input: str
    process_output: str

    def parts(self) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
        """Return the field, the source, and the names that can be read, of each template."""
        return (
            ("process_input", self.process_input, INPUT_NAMES),
            ("process_output", self.process_output, OUTPUT_NAMES),
        )


@dataclass(frozen=True)
class AdapterStyle:
    """A user's adapter; it is given `generation` only if its template names it, or `kwargs`."""

    adapter: Adapter
    info: Mapping[str, object] = field(default_factory=dict)
    takes_schema: ClassVar[bool] = False

    @cached_property
    def unsupported(self) -> frozenset[str]:
        """All of `Generation`, unless the input template reads it."""
        if any(name in self.adapter.process_input for name in ("generation", "kwargs")):
            return frozenset()
        return frozenset(one.name for one in fields(Generation))

    def describe(self) -> object:
        """Return the templates and what they read of the model."""
        return ["adapter", self.adapter.process_input, self.adapter.process_output, dict(self.info)]

    @cached_property
    def _templates(self) -> list[Template]:
        return [Template.compile(source, names=names) for _, source, names in self.adapter.parts()]

    def build(self, connection: Connection, messages: Sequence[Message]) -> object:
        """Return the request's body: the JSON that the input template writes."""
        told = {"messages": [dict(message) for message in messages]}
        kwargs = connection.generation.given()
        info = {**self.info, "model_key": connection.model, "generation": kwargs}
        try:
            written = self._templates[0].evaluate(input=told, model_info=info, kwargs=kwargs)
        except (RowTrouble, TemplateStopped) as trouble:
            raise self._refuse(trouble.message, trouble.hint) from None
        if not isinstance(written, str):
            return written
        try:
            return json.loads(written, strict=False)
        except (ValueError, RecursionError) as error:
            hint = 'write texts with `tojson`: `"content": {{ message.content | tojson }}`'
            raise self._refuse(f"what it writes is not JSON: {error}", hint) from None

    def _refuse(self, reason: str, hint: str | None) -> SolverError:
        return SolverError("E302", f"adapter `{self.adapter.key}`, `process_input`: {reason}", hint=hint)

    def read(self, status: int, headers: Mapping[str, str], body: bytes) -> Completion:
        """Return what the output template makes of an answer; it is not shown what reports an error."""
        del headers
        if status not in ANSWERED:
            return read_body(status, body, take_chat)
        start = f"adapter `{self.adapter.key}`, `process_output`"
        try:
            written = self._adapt(status, body)
        except Unreadable as trouble:
            return fail(f"{start}: {trouble}", body)
        completion = read_body(status, written.encode(errors="replace"), take_chat)
        if completion.error is None:
            return completion
        return replace(completion, error=f"{start}: {completion.error}", raw=cut_raw(body))

    def _adapt(self, status: int, body: bytes) -> str:
        try:
            text = JsonText(body.decode("utf-8-sig"))
            made = self._templates[1].evaluate(body=text, status_code=status)
        except UnicodeDecodeError:
            raise Unreadable("the body is not UTF-8") from None
        except (RowTrouble, TemplateStopped) as trouble:
            raise Unreadable(trouble.message) from None
        return _unwrap(made) if isinstance(made, str) else json.dumps(made, default=str)


def _unwrap(text: str) -> str:
    """Return the text inside a JSON text: `{{ body | tojson }}` quotes a body that is text already."""
    if not text.lstrip().startswith('"'):
        return text
    try:
        inner = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return inner if isinstance(inner, str) else text


ApiName = Literal["chat", "completions", "anthropic", "gemini"]
API_NAMES: tuple[ApiName, ...] = get_args(ApiName)
AZURE_HOSTS = (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")
AZURE_VERSION = "api-version"
_OPENAI_HOST = "api.openai.com"
_VERSION_END = re.compile(r"/v\d+\w*$")
_ENDPOINTS = ("/completions", "/messages", ":generateContent")


@dataclass(frozen=True)
class Api:
    """One way to speak: its style, where it is below a base URL, and how a key is sent.

    `root` is the path of a base URL that has none.
    """

    style: ApiStyle
    path: str
    root: str = "/v1"
    key_header: str = "Authorization"
    key_start: str = "Bearer "
    headers: Mapping[str, str] = field(default_factory=dict)

    def find_endpoint(self, base: str, model: str | None) -> str:
        """Return the URL below a base URL; one that is an endpoint already stays as it is."""
        parts = urlsplit(base)
        path = parts.path.rstrip("/")
        if path.endswith(_ENDPOINTS):
            return base
        if not path or (self.style is ANTHROPIC and not _VERSION_END.search(path)):
            path += self.root
        return _set_path(parts, path + self.path.format(model=quote(model or "", safe="")))

    def hold_key(self, key: Secret) -> dict[str, Secret]:
        """Return the header that carries a key."""
        return {self.key_header: Secret(f"{self.key_start}{key.reveal()}", key.origin)}


@dataclass(frozen=True)
class AzureApi(Api):
    """Azure's form of an OpenAI API: another key header; with `api-version`, a path per deployment."""

    root: str = "/openai/v1"
    key_header: str = "api-key"
    key_start: str = ""

    def find_endpoint(self, base: str, model: str | None) -> str:
        """Return the URL of a deployment, or of the API that takes its name in the body."""
        parts = urlsplit(base)
        if parts.path.strip("/") or AZURE_VERSION not in parse_qs(parts.query):
            return super().find_endpoint(base, model)
        return _set_path(parts, f"/openai/deployments/{quote(model or '', safe='')}{self.path}")


def _set_path(parts: SplitResult, path: str) -> str:
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


APIS: dict[ApiName, Api] = {
    "chat": Api(OPENAI_CHAT, "/chat/completions"),
    "completions": Api(OPENAI_COMPLETIONS, "/completions"),
    "anthropic": Api(
        ANTHROPIC,
        "/messages",
        key_header="x-api-key",
        key_start="",
        headers={"anthropic-version": ANTHROPIC_VERSION},
    ),
    "gemini": Api(
        GEMINI, "/models/{model}:generateContent", "/v1beta", key_header="x-goog-api-key", key_start=""
    ),
}


@dataclass(frozen=True)
class Provider:
    """A provider: the base URL of its own host, and the API that it speaks unless told otherwise."""

    name: str
    base_url: str | None
    api: ApiName = "chat"

    @property
    def key_name(self) -> str:
        """The environment value that holds its key."""
        return f"{self.name.upper()}_API_KEY"

    @property
    def base_name(self) -> str:
        """The environment value that overrides its base URL."""
        return f"{self.name.upper()}_BASE_URL"

    @property
    def own_host(self) -> str | None:
        """The host that its key belongs to."""
        return None if self.base_url is None else urlsplit(self.base_url).hostname


PROVIDERS: dict[str, Provider] = {
    one.name: one
    for one in (
        Provider("openai", f"https://{_OPENAI_HOST}/v1"),
        Provider("anthropic", "https://api.anthropic.com/v1", "anthropic"),
        Provider("gemini", "https://generativelanguage.googleapis.com/v1beta", "gemini"),
        Provider("together", "https://api.together.xyz/v1"),
        Provider("fireworks", "https://api.fireworks.ai/inference/v1"),
        Provider("sambanova", "https://api.sambanova.ai/v1"),
        Provider("novita", "https://api.novita.ai/openai/v1"),
        Provider("azure", None),
    )
}


def find_api(name: ApiName, url: str, provider: str | None = None) -> Api:
    """Return the API as the host at a URL speaks it."""
    api = APIS[name]
    host = tidy_host(urlsplit(url).hostname or "")
    is_azure = provider == "azure" or host.endswith(AZURE_HOSTS)
    if name == "chat" and (is_azure or host == _OPENAI_HOST):
        # Their newer models refuse `max_tokens`; other endpoints often know no other name.
        api = replace(api, style=OpenAiChat("max_completion_tokens"))
    if is_azure and name in {"chat", "completions"}:
        api = AzureApi(api.style, api.path)
    return api


def find_host_provider(url: str) -> Provider | None:
    """Return the provider whose own host a URL names."""
    host = tidy_host(urlsplit(url).hostname or "")
    return next((one for one in PROVIDERS.values() if one.own_host == host), None)


def ends_in_version(url: str) -> bool:
    """Return whether a URL is a base URL by its looks: its path ends in a version, such as `/v1`."""
    return bool(_VERSION_END.search(urlsplit(url).path.rstrip("/")))
