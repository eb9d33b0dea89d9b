"""The table of providers: which there are, where they are, and whose models are known by their bare names.

Nothing is imported that takes long, for shells complete model names from here. A new provider is one line of
`PROVIDERS`, if it has one of the APIs of `providers.APIS`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args
from urllib.parse import urlsplit

from answerkey.errors import listing

ApiName = Literal["chat", "completions", "anthropic", "gemini"]
API_NAMES: tuple[ApiName, ...] = get_args(ApiName)


@dataclass(frozen=True)
class Provider:
    """A provider: its base URL, and the API that it has unless told otherwise.

    The environment value `<NAME>_API_KEY` holds its key, `<NAME>_BASE_URL` overrides its base URL. `models`
    is a pattern of bare names that are its models' alone. A server of this machine needs no key; it has a
    `title`, and `start` is the command that starts it.
    """

    base_url: str | None
    api: ApiName = "chat"
    models: str = r"(?!)"
    title: str = ""
    start: str = ""

    @property
    def is_local(self) -> bool:
        """Whether it is a server that users start on their own machine."""
        return bool(self.start)

    @property
    def own_host(self) -> str | None:
        """The host that its key belongs to."""
        return None if self.base_url is None or self.is_local else urlsplit(self.base_url).hostname


PROVIDERS: dict[str, Provider] = {
    "openai": Provider("https://api.openai.com/v1", models=r"gpt-(?!oss)|chatgpt-|o[134](-|$)"),
    "anthropic": Provider("https://api.anthropic.com/v1", "anthropic", models="claude-"),
    "gemini": Provider("https://generativelanguage.googleapis.com/v1beta", "gemini", models="gemini-"),
    "together": Provider("https://api.together.xyz/v1"),
    "fireworks": Provider("https://api.fireworks.ai/inference/v1"),
    "sambanova": Provider("https://api.sambanova.ai/v1"),
    "novita": Provider("https://api.novita.ai/openai/v1"),
    "azure": Provider(None),
    "ollama": Provider("http://127.0.0.1:11434/v1", title="Ollama", start="ollama serve"),
    "vllm": Provider("http://127.0.0.1:8000/v1", title="vLLM", start="vllm serve MODEL"),
    "lmstudio": Provider("http://127.0.0.1:1234/v1", title="LM Studio", start="lms server start"),
    "llamacpp": Provider("http://127.0.0.1:8080/v1", title="llama.cpp", start="llama-server -m FILE"),
}
LOCAL = {name: one for name, one in PROVIDERS.items() if one.is_local}


def complete_name(name: str) -> str:
    """Return the bare name of a model with its provider: `gpt-4.1-nano` is `openai/gpt-4.1-nano`.

    A name that is no provider's alone, and any other text, stays as it is.
    """
    start = name.partition("?")[0]
    for provider, one in PROVIDERS.items() if not {"/", ":"}.intersection(start) else ():
        if re.match(one.models, start):
            return f"{provider}/{name}"
    return name


def say_who_serves(name: str) -> str:
    """Return how to name a model that no provider is known for."""
    name = name.partition("?")[0]
    if not re.fullmatch(r"[\w./:-]+", name):  # it may be an address, with a password
        name = "NAME"
    remote = listing(f"{provider}/…" for provider, one in PROVIDERS.items() if not one.is_local)
    here = listing(f"{provider}/{name}" for provider in LOCAL)
    return f"say who serves it: on this machine {here}; elsewhere {remote}; any: `http://HOST/v1#{name}`"
