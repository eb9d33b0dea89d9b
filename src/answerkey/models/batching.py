"""Asking an endpoint in batches, behind the same plain function as asking it call by call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack
from urllib.parse import urlsplit

from answerkey.errors import SpecError
from answerkey.models.batch_api import CHAT_PATH, Courier
from answerkey.models.batch_rounds import BatchMeans, BatchRound
from answerkey.models.calls import Call
from answerkey.models.connections import Connection
from answerkey.models.providers import AZURE_HOSTS
from answerkey.models.sending import Asker, AskerSettings
from answerkey.models.styles import OpenAiChat


class BatchAsker(Asker):
    """Asks one endpoint in batches, for one run; a context manager, closed in the end.

    `ask` returns when all batches are over, which may take a day. Beside what asking raises, SolverError E306
    says that the endpoint takes no batches, or has refused one. What is under way when `ask` raises, or the
    process dies, is collected by the next asking with the same book.
    """

    def __init__(
        self, connection: Connection, batches: BatchMeans, **settings: Unpack[AskerSettings]
    ) -> None:
        super().__init__(connection, **settings)
        self._batches = batches
        self._courier: Courier | None = None

    async def _open_round(self, calls: Sequence[Call]) -> BatchRound:
        if self._courier is None:
            line = self._line
            self._courier = self._batches.open_courier(line.connection, line.limits)
            self._background.stop_with(self._courier.close)
        return BatchRound(self._line, self._courier, self._terms, self._batches, calls)


def require_batches(connection: Connection) -> None:
    """Raise SpecError E119 for a model that cannot be asked in batches."""
    why = _find_obstacle(connection)
    if why is not None:
        hint = "leave `--batch` out; calls are then sent one by one"
        raise SpecError("E119", f"`--batch` cannot be used with `{connection.name}`: {why}", hint=hint)


def _find_obstacle(connection: Connection) -> str | None:
    if not isinstance(connection.style, OpenAiChat):
        return "only the chat API in the way of OpenAI has batches here"
    if connection.host.endswith(AZURE_HOSTS):
        return "batches of Azure are not in this release"
    if not urlsplit(connection.url).path.endswith(CHAT_PATH):
        return f"its address does not end in `{CHAT_PATH}`, so where its batches are is not known"
    return None
