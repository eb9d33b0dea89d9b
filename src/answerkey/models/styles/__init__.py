"""How each API is spoken; one module per API."""

from answerkey.models.styles.adapter import Adapter, AdapterStyle
from answerkey.models.styles.anthropic import ANTHROPIC
from answerkey.models.styles.gemini import GEMINI
from answerkey.models.styles.openai import OPENAI_CHAT, OPENAI_COMPLETIONS, OpenAiChat

__all__ = [
    "ANTHROPIC",
    "GEMINI",
    "OPENAI_CHAT",
    "OPENAI_COMPLETIONS",
    "Adapter",
    "AdapterStyle",
    "OpenAiChat",
]
