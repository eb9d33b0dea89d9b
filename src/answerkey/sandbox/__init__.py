"""Where a user's own Python runs: a separate process with limits, and only after it was trusted."""

from answerkey.sandbox.snippet import (
    RowErrorKind,
    Snippet,
    SnippetError,
    SnippetProcess,
    check_snippet,
    remember_trust,
    require_trust,
    untrusted,
)

__all__ = [
    "RowErrorKind",
    "Snippet",
    "SnippetError",
    "SnippetProcess",
    "check_snippet",
    "remember_trust",
    "require_trust",
    "untrusted",
]
