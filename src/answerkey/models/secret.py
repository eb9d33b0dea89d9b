"""A text that is used and never shown."""

from __future__ import annotations

import re
from typing import Literal

from answerkey.errors import HIDDEN, remember_secret

#: Where a secret comes from: written in the very field, kept by the project (its `secrets`, its `.env`), or
#: the caller's own (environment, a file outside the project, the Python call).
Origin = Literal["written", "project", "caller"]
#: A shorter key is no secret ("none", "EMPTY"), and its letters may well be in an answer.
SHORTEST_KEY = 6
#: What a name that holds a secret looks like; `MODEL_KEY` is none.
SECRET_NAME = re.compile(
    r"((API|ACCESS|SECRET|AUTH|PRIVATE)_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE
)


class Secret:
    """A text that shows itself as `***`; only `reveal` gives it away.

    Secrets with the same text are equal, wherever they come from.
    """

    __slots__ = ("_text", "origin")

    def __init__(self, text: str, origin: Origin = "written") -> None:
        self._text = text
        self.origin: Origin = origin
        remember_secret(text)

    def reveal(self) -> str:
        """Return the text itself, for the one call that sends it."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        raise TypeError("a secret is not stored")
