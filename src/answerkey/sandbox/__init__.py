"""Where a user's own Python runs: a separate process with limits, and only after it was trusted."""

from answerkey.sandbox.snippet import (
    Snippet,
    SnippetError,
    SnippetErrorKind,
    SnippetProcess,
    check_snippet,
    remember_trust,
    require_trust,
    untrusted,
)

__all__ = [
    "Snippet",
    "SnippetError",
    "SnippetErrorKind",
    "SnippetProcess",
    "check_snippet",
    "remember_trust",
    "require_trust",
    "untrusted",
]
