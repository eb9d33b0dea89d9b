"""Where a user's own Python runs: a separate process with limits, and only after it was trusted."""

from answerkey.sandbox.snippet import (
    Snippet,
    SnippetError,
    SnippetProcess,
    check_snippet,
    require_trust,
)

__all__ = [
    "Snippet",
    "SnippetError",
    "SnippetProcess",
    "check_snippet",
    "require_trust",
]
