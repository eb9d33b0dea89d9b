"""Where a user's own Python runs: a separate process with limits, and only after it was trusted."""

from answerkey.sandbox.process import SnippetError, SnippetProcess
from answerkey.sandbox.snippet import Snippet, check_snippet, require_trust

__all__ = [
    "Snippet",
    "SnippetError",
    "SnippetProcess",
    "check_snippet",
    "require_trust",
]
