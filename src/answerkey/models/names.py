"""The table of providers: their base URLs, and which own models known by bare names.

This module imports nothing slow, because shell completion of model names reads it. A new provider
is one line of `PROVIDERS`, if it has one of the APIs in `providers.APIS`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args
from urllib.parse import urlsplit

from answerkey.errors import listing

ApiName = Literal["chat", "completions", "anthropic", "gemini"]
API_NAMES: tuple[ApiName, ...] = get_args(ApiName)


@dataclass(frozen=True)
class Provider:
    """A provider: its base URL, and the API it has by default.

    The environment variable `<NAME>_API_KEY` holds its key, or the variable `key` if that one is
    not set. `<NAME>_BASE_URL` overrides the base URL. `names` are parameters that its chat API
    calls something else. `models` is a pattern of bare names that only this provider uses.
    `is_local` means a server that users start on their own machine, without a key.
    """

    base_url: str | None
    api: ApiName = "chat"
    models: str = r"(?!)"
    key: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    is_local: bool = False

    def owns(self, host: str) -> bool:
        """Return whether the provider's key belongs to a host."""
        if self.base_url is None or self.is_local:
            return False
        return urlsplit(self.base_url).hostname == host


#: Newer models of OpenAI and Azure reject `max_tokens`; many other endpoints know only that name.
OPENAI_NAMES = {"max_tokens": "max_completion_tokens"}
PROVIDERS: dict[str, Provider] = {
    "openai": Provider(
        "https://api.openai.com/v1", models=r"gpt-(?!oss)|chatgpt-|o[134](-|$)", names=OPENAI_NAMES
    ),
    "anthropic": Provider("https://api.anthropic.com/v1", "anthropic", models="claude-"),
    "gemini": Provider(
        "https://generativelanguage.googleapis.com/v1beta", "gemini", models="gemini-"
    ),
    "azure": Provider(None, names=OPENAI_NAMES),
    "bedrock": Provider(None, key="AWS_BEARER_TOKEN_BEDROCK"),
    "vertex": Provider(None),
    "cerebras": Provider("https://api.cerebras.ai/v1"),
    "cohere": Provider("https://api.cohere.ai/compatibility/v1"),
    "deepseek": Provider("https://api.deepseek.com/v1"),
    "fireworks": Provider("https://api.fireworks.ai/inference/v1"),
    "groq": Provider("https://api.groq.com/openai/v1"),
    "huggingface": Provider("https://router.huggingface.co/v1", key="HF_TOKEN"),
    "mistral": Provider("https://api.mistral.ai/v1", names={"seed": "random_seed"}),
    "novita": Provider("https://api.novita.ai/openai/v1"),
    "nvidia": Provider("https://integrate.api.nvidia.com/v1"),
    "openrouter": Provider(
        "https://openrouter.ai/api/v1", names={"reasoning_effort": "reasoning.effort"}
    ),
    "perplexity": Provider("https://api.perplexity.ai/chat/completions"),
    "sambanova": Provider("https://api.sambanova.ai/v1"),
    "together": Provider("https://api.together.xyz/v1"),
    "xai": Provider("https://api.x.ai/v1"),
    "ollama": Provider("http://127.0.0.1:11434/v1", is_local=True),
    "vllm": Provider(
        "http://127.0.0.1:8000/v1",
        is_local=True,
    ),
    "lmstudio": Provider("http://127.0.0.1:1234/v1", is_local=True),
    "llamacpp": Provider("http://127.0.0.1:8080/v1", is_local=True),
    "sglang": Provider(
        "http://127.0.0.1:30000/v1",
        is_local=True,
    ),
}
#: The providers that are servers on the user's own machine.
LOCAL = [name for name, provider in PROVIDERS.items() if provider.is_local]


def complete_name(name: str) -> str:
    """Return a bare model name with its provider: `gpt-4.1-nano` becomes `openai/gpt-4.1-nano`.

    A name that no single provider owns, and any other text, is returned unchanged.
    """
    start = name.partition("?")[0]
    if "/" in start or ":" in start:
        return name
    for provider, details in PROVIDERS.items():
        if re.match(details.models, start):
            return f"{provider}/{name}"
    return name


def unknown_provider_hint(name: str) -> str:
    """Return a hint for a model whose provider is unknown: how to name the provider."""
    name = name.partition("?")[0]
    if not re.fullmatch(r"[\w./:-]+", name):  # it may be an address, with a password
        name = "NAME"
    here = listing(f"{provider}/{name}" for provider in LOCAL)
    remote = [f"{provider}/…" for provider in PROVIDERS if provider not in LOCAL]
    elsewhere = listing(remote, limit=4)
    return f"name its provider: on this machine {here}; elsewhere {elsewhere}; any: `http://HOST/v1#{name}`"
