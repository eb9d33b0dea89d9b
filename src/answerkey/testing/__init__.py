"""A model's endpoint for tests, and gates inside a test suite: ours and yours.

The names are imported when they are asked for: aiohttp is large, and pytest loads the plugin of this package
whether anybody uses it or not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from answerkey.testing.asked import Asked, Request
    from answerkey.testing.behaviour import FAULTS, Behaviour, read_config
    from answerkey.testing.replies import KINDS, Answers, Reply, answer_by_hash
    from answerkey.testing.server import TestServer

_HOMES = {
    "Asked": "asked",
    "Request": "asked",
    "FAULTS": "behaviour",
    "Behaviour": "behaviour",
    "read_config": "behaviour",
    "KINDS": "replies",
    "Answers": "replies",
    "Reply": "replies",
    "answer_by_hash": "replies",
    "TestServer": "server",
}

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
    "read_config",
]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(f"answerkey.testing.{_HOMES[name]}"), name)
    raise AttributeError(f"module `answerkey.testing` has no attribute {name!r}")
