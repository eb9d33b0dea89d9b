"""Where a user's own Python runs: a separate process with limits, and only after it was trusted."""

from answerkey.sandbox.process import SnippetProcess
from answerkey.sandbox.snippet import Snippet, SnippetTrouble, TroubleKind, check_snippet
from answerkey.sandbox.trust import remember_trust, require_trust, untrusted

__all__ = [
    "Snippet",
    "SnippetProcess",
    "SnippetTrouble",
    "TroubleKind",
    "check_snippet",
    "remember_trust",
    "require_trust",
    "untrusted",
]
