"""Run a user's own Python in a separate process with limits, once the user has trusted it."""

from answerkey.sandbox.process import SnippetError, SnippetProcess
from answerkey.sandbox.snippet import Snippet, check_snippet, require_trust

__all__ = [
    "Snippet",
    "SnippetError",
    "SnippetProcess",
    "check_snippet",
    "require_trust",
]
