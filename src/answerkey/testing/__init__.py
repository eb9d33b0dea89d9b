"""A model server for tests, and gates inside a test suite: for our own tests and yours.

Names are imported on first use: aiohttp is large, and pytest always loads the plugin of this
package, even when nobody uses it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from answerkey.testing.replies import (
        FAULTS,
        KINDS,
        Answers,
        Asked,
        Behaviour,
        Reply,
        Request,
        answer_by_hash,
    )
    from answerkey.testing.server import TestServer

__all__ = [
    "FAULTS",
    "KINDS",
    "Answers",
    "Asked",
    "Behaviour",
    "Reply",
    "Request",
    "TestServer",
    "answer_by_hash",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module `answerkey.testing` has no attribute {name!r}")
    module = "server" if name == "TestServer" else "replies"
    return getattr(import_module(f"answerkey.testing.{module}"), name)
