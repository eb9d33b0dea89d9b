"""Files and batches of an OpenAI-shaped API: upload, create, look, download; what may pass is tried again."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import Any, Protocol, TypeGuard
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from answerkey.errors import SolverError
from answerkey.models.batch_lines import ENDPOINT, BatchLimits
from answerkey.models.health import Health
from answerkey.models.limits import Limits
from answerkey.models.line import Line
from answerkey.models.reading import ANSWERED, Said, find_complaint, read_body, shorten
from answerkey.models.retrying import (
    Outcome,
    Patience,
    Reply,
    Request,
    Trouble,
    Verdict,
    judge_reply,
    judge_trouble,
    read_retry_after,
)
from answerkey.types import Completion

LOG = logging.getLogger("answerkey.models")
CHAT_PATH = "/chat/completions"
#: In how much time the endpoint is to be done; the only choice that there is.
WINDOW = "24h"
OVER = frozenset({"completed", "failed", "expired", "cancelled"})
#: A list of batches is read this far back for one that may be ours.
LISTED, PAGES = 100, 20
_GONE = frozenset({"status 404", "status 410", "too_large"})
RESUME_HINT = "the batches under way go on at the endpoint; `answerkey resume` collects them"
_LONGEST_ID = 512


class Courier(Protocol):
    """Carries requests to any path of one endpoint."""

    async def send(self, request: Request, *, seconds: float) -> Reply | Trouble:
        """Return what came back within so many seconds."""

    async def close(self) -> None:
        """Close all connections."""


class Refused(Exception):  # noqa: N818 - the caller decides whether it is an error
    """The endpoint does not do it, and asking again brings nothing. The message says why."""


class Gone(Refused):
    """What was asked for is not there, or too large to be had."""


@dataclass(frozen=True)
class BatchState:
    """What the endpoint says of a batch; `files` are those of its output and its errors."""

    batch: str
    status: str
    files: tuple[str, ...] = ()
    done: int = 0
    total: int = 0
    complaint: str = ""

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.status in OVER


class BatchApi:
    """Speaks to the files and batches beside a chat endpoint.

    Raises SolverError E304 (the key is refused) or E306 (no answer in spite of all attempts).
    """

    def __init__(self, line: Line, courier: Courier, limits: BatchLimits) -> None:
        self._line = line
        self._courier = courier
        self._limits = limits
        self._transfer = replace(
            line.limits,
            attempt_seconds=limits.transfer_seconds,
            call_seconds=limits.transfer_seconds + limits.outage_seconds,
        )
        self._wait = replace(line.limits, attempts=1000, call_seconds=limits.outage_seconds)

    async def upload(self, content: bytes) -> str:
        """Return the name of the new file that holds these lines; raises `Refused`."""
        boundary = token_hex(16)
        kind = f"multipart/form-data; boundary={boundary}"
        request = Request("POST", self._locate("files"), _wrap(content, boundary), kind)
        return self._take_id(_parse(await self._fetch(request, self._transfer)))

    async def create(self, file: str) -> BatchState:
        """Return the new batch over a file, or the one that is there in spite of a trouble.

        Raises `Refused`; there is no batch then.
        """
        wanted = {"input_file_id": file, "endpoint": ENDPOINT, "completion_window": WINDOW}
        request = Request("POST", self._locate("batches"), json.dumps(wanted).encode())

        async def recall() -> bytes | None:
            found = await self._find(file)
            return None if found is None else json.dumps(found).encode()

        return self._read(_parse(await self._fetch(request, self._line.limits, recall)))

    async def find(self, file: str) -> BatchState | None:
        """Return the batch over a file, if there is one; None as well where batches are not listed."""
        found = await self._find(file)
        return None if found is None else self._read(found)

    async def look(self, batch: str) -> BatchState:
        """Return how far a batch is; raises `Gone`."""
        request = Request("GET", self._locate("batches", batch))
        return self._read(_parse(await self._fetch_sure(request, self._wait)))

    async def download(self, file: str) -> bytes:
        """Return the lines of a file; raises `Gone`."""
        url = self._locate("files", file, "content")
        request = Request("GET", url, max_bytes=self._limits.output_bytes)
        return await self._fetch_sure(request, self._transfer)

    async def _find(self, file: str) -> Mapping[str, Any] | None:
        after: dict[str, str] = {}
        for _ in range(PAGES):
            try:
                url = self._locate("batches", limit=str(LISTED), **after)
                page = _parse(await self._fetch(Request("GET", url), self._line.limits))
            except Refused:
                return None
            listed = page.get("data")
            batches = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
            for one in batches:
                if one.get("input_file_id") == file:
                    return one
            if not batches or not page.get("has_more"):
                return None
            after = {"after": str(batches[-1].get("id"))}
        return None

    async def _fetch_sure(self, request: Request, limits: Limits) -> bytes:
        """Return the body of the reply; what was paid for is given up only when it is gone."""
        try:
            return await self._fetch(request, limits)
        except Gone:
            raise
        except Refused as trouble:
            raise self._fail(str(trouble)) from None

    async def _fetch(
        self, request: Request, limits: Limits, recall: Callable[[], Awaitable[bytes | None]] | None = None
    ) -> bytes:
        """Return the body of the reply; `recall` looks, before another attempt, if the last one did it."""
        clock = self._line.clock
        patience = Patience(limits, clock, self._line.draw)
        while True:
            came = await self._courier.send(request, seconds=patience.begin_attempt())
            outcome = self._judge(came, is_file=request.max_bytes is not None)
            if isinstance(came, Reply) and outcome.verdict is Verdict.ANSWERED:
                return came.body
            wait = patience.choose_wait(outcome)
            if wait is None:
                raise self._give_up(outcome)
            LOG.debug(
                "%s %s: %s; again in %.1f s", request.method, request.url, outcome.completion.error, wait
            )
            await clock.sleep(wait)
            found = None if recall is None else await recall()
            if found is not None:
                return found

    def _judge(self, came: Reply | Trouble, *, is_file: bool) -> Outcome:
        if isinstance(came, Trouble):
            return judge_trouble(came)

        def read(status: int, _: Mapping[str, str], body: bytes) -> Completion:
            if is_file and status in ANSWERED:
                return Completion("")
            found = read_body(status, body, lambda _: Said(texts=[""]))
            return replace(found, error=found.error and self._line.connection.hide(found.error))

        wait = read_retry_after(came.headers, self._line.clock.wall())
        return judge_reply(came, read)._replace(retry_after=wait)

    def _give_up(self, outcome: Outcome) -> SolverError | Refused:
        why = outcome.completion.error or outcome.label
        if outcome.verdict is Verdict.FAILED and outcome.label in _GONE:
            return Gone(why)
        # It knows a key that is refused, and a host that is not there.
        connection = self._line.connection
        error = Health(connection.name, connection.host).note(outcome, is_final=True)
        if error is None and outcome.verdict is Verdict.FAILED:
            return Refused(why)
        return error or self._fail(why)

    def _fail(self, why: str) -> SolverError:
        return SolverError(
            "E306", f"the batches of `{self._line.connection.name}` fail: {why}", hint=RESUME_HINT
        )

    def _read(self, found: Mapping[str, Any]) -> BatchState:
        counts = found.get("request_counts")
        counts = counts if isinstance(counts, Mapping) else {}
        status = found.get("status")
        if not isinstance(status, str):
            raise self._fail("a batch that it shows has no status")
        return BatchState(
            batch=self._take_id(found),
            status=status.lower(),
            files=tuple(filter(_is_name, (found.get("output_file_id"), found.get("error_file_id")))),
            done=_count(counts, "completed") + _count(counts, "failed"),
            total=_count(counts, "total"),
            complaint=self._line.connection.hide(_take_complaint(found.get("errors"))),
        )

    def _take_id(self, found: Mapping[str, Any]) -> str:
        name = found.get("id")
        if not _is_name(name):
            raise self._fail("a file or batch that it shows has no `id`")
        return name

    def _locate(self, *names: str, **query: str) -> str:
        parts = urlsplit(self._line.connection.url)
        path = parts.path.removesuffix(CHAT_PATH) + "".join(f"/{quote(name, safe='')}" for name in names)
        asked = "&".join(one for one in (parts.query, urlencode(query)) if one)
        return urlunsplit((parts.scheme, parts.netloc, path, asked, ""))


def _take_complaint(errors: object) -> str:
    inner = errors.get("data", errors) if isinstance(errors, Mapping) else errors
    return shorten(find_complaint(inner))


def _is_name(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and value not in {"", ".", ".."} and len(value) <= _LONGEST_ID


def _count(counts: Mapping[str, Any], name: str) -> int:
    found = counts.get(name)
    return found if isinstance(found, int) and found > 0 else 0


def _parse(body: bytes) -> Mapping[str, Any]:
    """Return the object of a body that was found to be one."""
    found: Mapping[str, Any] = json.loads(body.decode("utf-8-sig"))
    return found


def _wrap(content: bytes, boundary: str) -> bytes:
    """Return the form that an upload is: what the file is for, and the file."""
    start = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="calls.jsonl"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    )
    return b"".join((start.encode(), content, f"\r\n--{boundary}--\r\n".encode()))
