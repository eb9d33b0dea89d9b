"""The table of providers: which there are, where they are, and whose models are known by their bare
names.

Nothing is imported that takes long, for shells complete model names from here. A new provider is
one line of `PROVIDERS`, if it has one of the APIs of `providers.APIS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from answerkey.errors import listing

ApiName = Literal["chat", "completions", "responses", "anthropic", "gemini"]
API_NAMES: tuple[ApiName, ...] = get_args(ApiName)


#: What stands for an environment value in a base URL, and what such a value may be.
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_VALUE = r"[A-Za-z0-9][A-Za-z0-9-]*"


@dataclass(frozen=True)
class Provider:
    """A provider: its base URL, and the API that it has unless told otherwise.

    The environment value `<NAME>_API_KEY` holds its key, or the one that `key` names;
    `<NAME>_BASE_URL` overrides its base URL, in which `{NAME}` stands for an environment value;
    `prefill_url` is the one that takes a `prefill`, if that is another. `names` are parameters that
    its chat API names otherwise; None for one that it lacks, in the completions API as well.
    `answer_format` and `prefill` have the name of a field that is sent for them; `providers` knows
    what else is. `models` is a pattern of bare names that are its models' alone. A server of this
    machine needs no key; it has a `title`, and `start` is the command that starts it.
    """

    base_url: str | None
    api: ApiName = "chat"
    models: str = r"(?!)"
    key: str = ""
    names: Mapping[str, str | None] = field(default_factory=dict)
    prefill_url: str | None = None
    title: str = ""
    start: str = ""

    @property
    def is_local(self) -> bool:
        """Whether it is a server that users start on their own machine."""
        return bool(self.start)

    def owns(self, host: str) -> bool:
        """Return whether its key belongs to a host."""
        if self.base_url is None or self.is_local:
            return False
        pattern = re.escape(
            _PLACEHOLDER.sub("{}", self.base_url).partition("://")[2].partition("/")[0]
        )
        pattern = pattern.replace(r"\{\}\-", f"({_VALUE}-)?").replace(r"\{\}", _VALUE)
        return re.fullmatch(pattern, host, re.IGNORECASE) is not None

    def fill_url(self, find: Callable[[str], str | None]) -> str:
        """Return the base URL with its environment values.

        LookupError names one that is not set or unfit.
        """
        filled = self.base_url or ""
        for name in _PLACEHOLDER.findall(filled):
            value = find(name)
            if value is None or not re.fullmatch(_VALUE, value):
                raise LookupError(name)
            filled = filled.replace(f"{{{name}}}", value)
        return filled.replace(
            "://global-", "://"
        )  # Google's one location without a host of its own


#: OpenAI's own hosts and Azure: newer models refuse `max_tokens`; other endpoints often know no
#: other name.
OPENAI_NAMES = {"max_tokens": "max_completion_tokens", "top_k": None, "min_p": None}
#: A last message of the assistant is continued: always, if it is marked, or if a field of the body
#: says so.
_PREFILL, _PREFIX = {"prefill": "messages"}, {"prefill": "messages.prefix"}
_CONTINUE = {"prefill": "continue_final_message"}
_OPENROUTER_NAMES = {
    **_PREFILL,
    "reasoning_effort": "reasoning.effort",
    "reasoning_budget": "reasoning.max_tokens",
}
_VERTEX_URL = (
    "https://{GOOGLE_CLOUD_LOCATION}-aiplatform.googleapis.com/v1/projects/{GOOGLE_CLOUD_PROJECT}"
    "/locations/{GOOGLE_CLOUD_LOCATION}/endpoints/openapi"
)
PROVIDERS: dict[str, Provider] = {
    "openai": Provider(
        "https://api.openai.com/v1", models=r"gpt-(?!oss)|chatgpt-|o[134](-|$)", names=OPENAI_NAMES
    ),
    "anthropic": Provider("https://api.anthropic.com/v1", "anthropic", models="claude-"),
    "gemini": Provider(
        "https://generativelanguage.googleapis.com/v1beta", "gemini", models="gemini-"
    ),
    "azure": Provider(None, names=OPENAI_NAMES),
    "bedrock": Provider(
        "https://bedrock-runtime.{AWS_REGION}.amazonaws.com/openai/v1",
        key="AWS_BEARER_TOKEN_BEDROCK",
    ),
    "vertex": Provider(_VERTEX_URL),
    "cerebras": Provider("https://api.cerebras.ai/v1"),
    "cohere": Provider(
        "https://api.cohere.ai/compatibility/v1", names={"answer_format": "response_format.schema"}
    ),
    "deepseek": Provider(
        "https://api.deepseek.com/v1",
        names={**_PREFIX, "answer_format": None},
        prefill_url="https://api.deepseek.com/beta",
    ),
    "fireworks": Provider("https://api.fireworks.ai/inference/v1"),
    "groq": Provider("https://api.groq.com/openai/v1", names=_PREFILL),
    "huggingface": Provider("https://router.huggingface.co/v1", key="HF_TOKEN"),
    "mistral": Provider("https://api.mistral.ai/v1", names={**_PREFIX, "seed": "random_seed"}),
    "novita": Provider("https://api.novita.ai/openai/v1"),
    "nvidia": Provider("https://integrate.api.nvidia.com/v1"),
    "openrouter": Provider("https://openrouter.ai/api/v1", names=_OPENROUTER_NAMES),
    "perplexity": Provider("https://api.perplexity.ai/chat/completions"),
    "sambanova": Provider("https://api.sambanova.ai/v1"),
    "together": Provider("https://api.together.xyz/v1"),
    "xai": Provider("https://api.x.ai/v1"),
    "ollama": Provider(
        "http://127.0.0.1:11434/v1", names=_PREFILL, title="Ollama", start="ollama serve"
    ),
    "vllm": Provider(
        "http://127.0.0.1:8000/v1",
        names={**_CONTINUE, "answer_format": "structured_outputs.choice"},
        title="vLLM",
        start="vllm serve MODEL",
    ),
    "lmstudio": Provider("http://127.0.0.1:1234/v1", title="LM Studio", start="lms server start"),
    "llamacpp": Provider(
        "http://127.0.0.1:8080/v1", names=_PREFILL, title="llama.cpp", start="llama-server -m FILE"
    ),
    "sglang": Provider(
        "http://127.0.0.1:30000/v1",
        names=_CONTINUE,
        title="SGLang",
        start="python -m sglang.launch_server --model-path MODEL",
    ),
}
LOCAL = {name: one for name, one in PROVIDERS.items() if one.is_local}


def complete_name(name: str) -> str:
    """Return the bare name of a model with its provider: `gpt-4.1-nano` is `openai/gpt-4.1-nano`.

    A name that is no provider's alone, and any other text, stays as it is.
    """
    start = name.partition("?")[0]
    for provider, details in PROVIDERS.items() if not {"/", ":"}.intersection(start) else ():
        if re.match(details.models, start):
            return f"{provider}/{name}"
    return name


def say_who_serves(name: str) -> str:
    """Return how to name a model that no provider is known for."""
    name = name.partition("?")[0]
    if not re.fullmatch(r"[\w./:-]+", name):  # it may be an address, with a password
        name = "NAME"
    remote = listing(
        (f"{provider}/…" for provider, details in PROVIDERS.items() if not details.is_local),
        limit=4,
    )
    here = listing(f"{provider}/{name}" for provider in LOCAL)
    return f"say who serves it: on this machine {here}; elsewhere {remote}; any: `http://HOST/v1#{name}`"
