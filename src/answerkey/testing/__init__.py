"""A model's endpoint for tests: ours and yours."""

from __future__ import annotations

from answerkey.testing.asked import Asked, Request
from answerkey.testing.behaviour import FAULTS, Behaviour, read_config
from answerkey.testing.replies import KINDS, Answers, Reply, answer_by_hash
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
    "read_config",
]
