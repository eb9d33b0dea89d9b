"""Calls in batches: handed in together, and collected when they are answered.

calls ──► reserved ──► lines ──► file ──► written down ──► batch ──► looked at ──► output ──► journal

What is under way is written down before the endpoint begins to work on it. So whoever comes later, after a
sudden death as well, collects it instead of handing it in again.
"""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import Any, Protocol, TypeGuard, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from answerkey.errors import AnswerkeyError, SolverError
from answerkey.models.calls import (
    MEGABYTE,
    BatchLeft,
    BatchSeen,
    Call,
    CallSettings,
    Event,
    Finished,
    FinishedCalls,
    Limits,
    Submitted,
    charge,
)
from answerkey.models.client import BUDGET_POLL_SECONDS, LOG, ModelClient, Round
from answerkey.models.providers import CHAT_PATH, Connection
from answerkey.models.responses import ANSWERED, fail, find_complaint, read_body, shorten
from answerkey.models.retry import (
    Health,
    Reply,
    Request,
    Retry,
    Verdict,
    judge,
    read_retry_after,
)
from answerkey.types import Completion, CompletionStatus

#: Where each line of a batch is sent, whatever the base URL: the APIs that have batches name it like this.
ENDPOINT = "/v1/chat/completions"
#: In how much time the endpoint is to be done; the only choice that there is.
WINDOW = "24h"
OVER = frozenset({"completed", "failed", "expired", "cancelled"})
#: A list of batches is read this far back for one that may be ours.
LISTED, PAGES = 100, 20
#: Why a call has no line in the output, by how its batch ended.
SILENCE = {
    "completed": "the batch says nothing of this call",
    "expired": "the batch expired before this call was answered",
    "cancelled": "the batch was cancelled before this call was answered",
}
RESUME_HINT = "the batches under way go on at the endpoint; `answerkey resume` collects them"
GIVE_UP_HINT = "nothing is under way; if the endpoint has no batches, `answerkey resume --no-batch` goes on"
_GONE = frozenset({"status 404", "status 410", "too_large"})
_LONGEST = 300
_LONGEST_ID = 512

T = TypeVar("T")
U = TypeVar("U")


class BatchBook(Protocol):
    """Where batches are written down; used by one thread at a time."""

    def list_batches(self, identity: str) -> list[Submitted]:
        """Return the batches of a connection that are not collected yet, the oldest first."""

    def keep_batch(self, batch: Submitted) -> None:
        """Write a batch down, or its name; it is safe when this returns."""

    def end_batch(self, batch: Submitted) -> None:
        """Forget a batch: its calls are in the ledger, or there was nothing to collect."""


@dataclass(frozen=True)
class BatchLimits:
    """How large a batch may be, how large its output, and how often it is looked at (in seconds).

    The pauses between two looks grow from `first_poll` to `longest_poll`. A transfer of a file may take
    `transfer_seconds`; an endpoint that cannot be reached for `outage_seconds` is not waited for any longer.
    """

    max_calls: int = 50_000
    max_bytes: int = 200 * MEGABYTE
    output_bytes: int = 1024 * MEGABYTE
    first_poll: float = 1.0
    longest_poll: float = 60.0
    poll_growth: float = 1.5
    transfer_seconds: float = 1800.0
    outage_seconds: float = 3600.0


def write_line(connection: Connection, call: Call) -> bytes | Completion:
    """Return a call as a line of a batch's input; a completion with status ERROR when it cannot be built."""
    try:
        body = connection.build(call.messages, call.choices)
    except AnswerkeyError as error:
        return Completion(None, CompletionStatus.ERROR, call.messages, error=error.message, source="live")
    line = {"custom_id": call.key, "method": "POST", "url": ENDPOINT, "body": body}
    return json.dumps(line, separators=(",", ":"), default=str).encode() + b"\n"


def cut_files(lines: Iterable[tuple[str, bytes]], limits: BatchLimits) -> Iterator[dict[str, bytes]]:
    """Yield lines by the key of their call, as many as fit into one batch; one too large for any is alone."""
    file: dict[str, bytes] = {}
    size = 0
    for key, line in lines:
        if file and (len(file) >= limits.max_calls or size + len(line) > limits.max_bytes):
            yield file
            file, size = {}, 0
        file[key] = line
        size += len(line)
    if file:
        yield file


def read_lines(content: bytes, connection: Connection) -> Iterator[tuple[str, Completion]]:
    """Yield key and completion of each line that names a call, in the order of the file; never raises.

    A line that cannot be read names no call.
    """
    for raw in io.BytesIO(content):
        try:
            line = json.loads(raw)
        except (ValueError, RecursionError):
            continue
        key = line.get("custom_id") if isinstance(line, dict) else None
        if isinstance(key, str):
            yield key, _read_line(line, connection)


def _read_line(line: Mapping[str, Any], connection: Connection) -> Completion:
    answer, error = line.get("response"), line.get("error")
    if error:
        code = error.get("code") if isinstance(error, Mapping) else None
        name = code[:_LONGEST] if isinstance(code, str) and code else "the batch reports an error"
        return fail(connection.hide(f"{name}: {find_complaint(error) or 'no reason is given'}"))
    if not isinstance(answer, Mapping):
        return fail("the line of this call has neither an answer nor an error")
    status, body = answer.get("status_code"), answer.get("body")
    try:
        raw = body.encode(errors="replace") if isinstance(body, str) else json.dumps(body).encode()
    except RecursionError:
        return fail("the answer is nested too deeply to be read")
    return judge(Reply(status if isinstance(status, int) else 200, {}, raw), connection.read).completion


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


class BatchApi:
    """The files and batches beside a chat endpoint.

    Raises SolverError E304 (the key is refused) or E306 (no answer in spite of all attempts).
    """

    def __init__(self, client: ModelClient, limits: BatchLimits) -> None:
        self._client = client
        self._connection = client.endpoint.connection
        self._limits = limits
        common = client.endpoint.limits
        self._transfer = replace(
            common,
            attempt_seconds=limits.transfer_seconds,
            call_seconds=limits.transfer_seconds + limits.outage_seconds,
        )
        self._wait = replace(common, attempts=1000, call_seconds=limits.outage_seconds)

    async def upload(self, content: bytes) -> str:
        """Return the name of the new file that holds these lines; raises `Refused`."""
        boundary = token_hex(16)
        start = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="calls.jsonl"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n"
        )
        form = b"".join((start.encode(), content, f"\r\n--{boundary}--\r\n".encode()))
        kind = f"multipart/form-data; boundary={boundary}"
        request = Request(form, url=self._locate("files"), content_type=kind)
        return self._take_id(_parse(await self._fetch(request, self._transfer)))

    async def create(self, file: str) -> BatchState:
        """Return the new batch over a file, or the one that is there in spite of an error.

        Raises `Refused`; there is no batch then.
        """
        wanted = {"input_file_id": file, "endpoint": ENDPOINT, "completion_window": WINDOW}
        request = Request(json.dumps(wanted).encode(), url=self._locate("batches"))

        async def recall() -> bytes | None:
            found = await self._find(file)
            return None if found is None else json.dumps(found).encode()

        return self._read(_parse(await self._fetch(request, self._client.endpoint.limits, recall)))

    async def find(self, file: str) -> BatchState | None:
        """Return the batch over a file, if there is one; None as well where batches are not listed."""
        found = await self._find(file)
        return None if found is None else self._read(found)

    async def look(self, batch: str) -> BatchState:
        """Return how far a batch is; raises `Gone`."""
        request = Request(None, "GET", self._locate("batches", batch))
        return self._read(_parse(await self._fetch(request, self._wait, is_paid=True)))

    async def download(self, file: str) -> bytes:
        """Return the lines of a file; raises `Gone`."""
        url = self._locate("files", file, "content")
        request = Request(None, "GET", url, max_bytes=self._limits.output_bytes)
        return await self._fetch(request, self._transfer, is_paid=True)

    async def _find(self, file: str) -> Mapping[str, Any] | None:
        after: dict[str, str] = {}
        for _ in range(PAGES):
            try:
                url = self._locate("batches", limit=str(LISTED), **after)
                page = _parse(await self._fetch(Request(None, "GET", url), self._client.endpoint.limits))
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

    async def _fetch(
        self,
        request: Request,
        limits: Limits,
        recall: Callable[[], Awaitable[bytes | None]] | None = None,
        *,
        is_paid: bool = False,
    ) -> bytes:
        """Return the body of the reply; `recall` looks, before another attempt, if the last one did it.

        What was paid for is given up only when it is gone.
        """
        clock, is_file = self._client.endpoint.clock, request.max_bytes is not None

        def read(status: int, body: bytes) -> Completion:
            if is_file and status in ANSWERED:
                return Completion("")
            found = read_body(status, body, lambda _: Completion(""))
            return replace(found, error=found.error and self._connection.hide(found.error))

        retry = Retry(limits, clock)
        while True:
            came = await self._client.start_http().send(request, seconds=retry.begin_attempt())
            outcome = judge(came, read)
            if isinstance(came, Reply):
                if outcome.verdict is Verdict.ANSWERED:
                    return came.body
                outcome = outcome._replace(retry_after=read_retry_after(came.headers, clock.wall()))
            wait, why = retry.choose_wait(outcome), outcome.completion.error or outcome.label
            if wait is None:
                is_refused = outcome.verdict is Verdict.FAILED
                if is_refused and outcome.label in _GONE:
                    raise Gone(why)
                # It knows a key that is refused, and a host that is not there.
                one = self._connection
                error = Health(one.name, one.host, one.start_hint).note(outcome, is_final=True)
                if error is None and is_refused and not is_paid:
                    raise Refused(why)
                raise error or self._fail(why)
            LOG.debug("%s %s: %s; again in %.1f s", request.method, request.url, why, wait)
            await clock.sleep(wait)
            found = None if recall is None else await recall()
            if found is not None:
                return found

    def _fail(self, why: str) -> SolverError:
        return SolverError("E306", f"the batches of `{self._connection.name}` fail: {why}", hint=RESUME_HINT)

    def _read(self, found: Mapping[str, Any]) -> BatchState:
        counts = found.get("request_counts")
        counts = counts if isinstance(counts, Mapping) else {}
        done, failed, total = (
            one if isinstance(one := counts.get(name), int) and one > 0 else 0
            for name in ("completed", "failed", "total")
        )
        status, errors = found.get("status"), found.get("errors")
        errors = errors.get("data", errors) if isinstance(errors, Mapping) else errors
        if not isinstance(status, str):
            raise self._fail("a batch that it shows has no status")
        return BatchState(
            batch=self._take_id(found),
            status=status.lower(),
            files=tuple(filter(_is_name, (found.get("output_file_id"), found.get("error_file_id")))),
            done=done + failed,
            total=total,
            complaint=self._connection.hide(shorten(find_complaint(errors))),
        )

    def _take_id(self, found: Mapping[str, Any]) -> str:
        name = found.get("id")
        if not _is_name(name):
            raise self._fail("a file or batch that it shows has no `id`")
        return name

    def _locate(self, *names: str, **query: str) -> str:
        parts = urlsplit(self._connection.url)
        path = parts.path.removesuffix(CHAT_PATH) + "".join(f"/{quote(name, safe='')}" for name in names)
        asked = "&".join(one for one in (parts.query, urlencode(query)) if one)
        return parts._replace(path=path, query=asked, fragment="").geturl()


def _is_name(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and value not in {"", ".", ".."} and len(value) <= _LONGEST_ID


def _parse(body: bytes) -> Mapping[str, Any]:
    """Return the object of a body that was found to be one."""
    found: Mapping[str, Any] = json.loads(body.decode("utf-8-sig"))
    return found


class BatchRound(Round):
    """Makes calls with distinct keys, all of them unknown to the ledger, in as few batches as can be."""

    def __init__(self, client: BatchClient, calls: Sequence[Call]) -> None:
        super().__init__(client, ())
        self._connection = client.endpoint.connection
        self._book = client.book
        self._limits = client.batch_limits
        self._api = BatchApi(client, client.batch_limits)
        self._unanswered = {call.key: call for call in calls}
        self._open: list[Submitted] = []
        self._reserved: dict[str, float] = {}
        self._refusal: SolverError | None = None
        self._task: asyncio.Task[object] | None = None

    async def run(self) -> dict[str, Completion]:
        """Return the completions by key; raise what made it stop. Batches under way are told of then."""
        self._task = asyncio.current_task()
        try:
            await self._take_up()
            while self._unanswered:
                for file in cut_files(await self._reserve(), self._limits):
                    await self._submit(file)
                await self._collect_all()
        finally:
            for one in self._open:
                if one.batch is not None:
                    self._tell(BatchLeft(one.batch, len(one.keys)))
        return self._answered

    def stop(self, reason: BaseException | None, *, grace: float | None = None) -> None:
        """Wait no longer; the batches go on at the endpoint."""
        del reason, grace
        if self._task is not None:
            self._task.cancel()

    async def _take_up(self) -> None:
        """Collect what an earlier process has handed in, if calls of ours are in it."""
        for one in await self._in_thread(self._book.list_batches, self._connection.identity):
            ours = self._unanswered.keys() & set(one.keys)
            if not ours:
                continue
            try:
                named = one if one.batch is not None else await self._name(one, is_new=False)
            except Refused:  # it never came to a batch; its calls are handed in anew
                await self._in_thread(self._book.end_batch, one)
                continue
            self._settings.budget.admit(len(ours))
            self._open.append(named)
        await self._collect_all()

    async def _reserve(self) -> list[tuple[str, bytes]]:
        """Return the lines of as many calls as the budget has room for, at least one; E305 without any."""
        endpoint, settings = self._endpoint, self._settings
        lines: list[tuple[str, bytes]] = []
        hopeless: list[tuple[Call, Completion]] = []
        for call in self._unanswered.values():
            line = write_line(self._connection, call)
            if isinstance(line, Completion):
                hopeless.append((call, line))
                continue
            cost = charge(settings.price, *endpoint.estimate_tokens(line))
            try:
                while not (has_room := settings.budget.reserve(cost)) and not lines:
                    await endpoint.clock.sleep(BUDGET_POLL_SECONDS)
            except AnswerkeyError:
                if not lines:
                    raise
                break
            if not has_room:
                break
            self._reserved[call.key] = cost
            lines.append((call.key, line))
        await self._keep(hopeless)
        return lines

    async def _submit(self, file: Mapping[str, bytes]) -> None:
        """Hand calls in; they are written down before the endpoint may begin to work."""
        try:
            uploaded = await self._api.upload(b"".join(file.values()))
            submitted = Submitted(uploaded, self._connection.identity, list(file))
            await self._in_thread(self._book.keep_batch, submitted)
            try:
                self._open.append(await self._name(submitted, is_new=True))
            except Refused:
                await self._in_thread(self._book.end_batch, submitted)
                raise
        except Refused as error:
            message = f"the endpoint of `{self._connection.name}` takes no batch: {error}"
            raise SolverError("E306", message, hint=GIVE_UP_HINT) from None

    async def _name(self, submitted: Submitted, *, is_new: bool) -> Submitted:
        """Return a batch with its name, written down; it is created unless it is there already."""
        found = None if is_new else await self._api.find(submitted.file)
        state = found or await self._api.create(submitted.file)
        named = replace(submitted, batch=state.batch)
        await self._in_thread(self._book.keep_batch, named)
        self._tell_seen(state, named)
        return named

    async def _collect_all(self) -> None:
        """Look at the batches, with growing pauses, until each is over and collected."""
        wait = self._limits.first_poll
        while self._open:
            for one in list(self._open):
                await self._look(one)
            if self._open:
                await self._endpoint.clock.sleep(wait)
                wait = min(self._limits.longest_poll, wait * self._limits.poll_growth)
        if self._refusal is not None:
            raise self._refusal

    async def _look(self, one: Submitted) -> None:
        """Collect a batch if it is over."""
        try:
            state = await self._api.look(one.batch or "")
        except Gone as error:
            state = BatchState(one.batch or "", "gone", complaint=f"the batch is not there: {error}")
        else:
            self._tell_seen(state, one)
            if state.status not in OVER:
                return
        said: dict[str, Completion] = {}  # an answer, which comes first, wins over an error of the same call
        for file in state.files:
            try:
                content = await self._api.download(file)
            except Gone as error:
                why = f"a file of the batch cannot be had: {error}"
                said |= {key: fail(why) for key in self._unanswered if key not in said}
                continue
            for key, completion in read_lines(content, self._connection):
                said.setdefault(key, completion)
        self._open.remove(one)
        if state.status == "failed" and not said:
            # The endpoint took the batch and did not begin with it; the others are collected first.
            why = state.complaint or "it gives no reason"
            message = f"the endpoint of `{self._connection.name}` refuses the batch `{one.batch}`: {why}"
            hint = "nothing of it was answered; `answerkey resume` hands its calls in again"
            self._refusal = SolverError("E306", message, hint=hint)
            await self._in_thread(self._book.end_batch, one)
            return
        silence = fail(state.complaint or SILENCE.get(state.status, f"the batch is {state.status}"))
        # How long one line took, nobody tells.
        finished = [
            (call, replace(said.get(key, silence), prompt=call.messages, attempts=1, source="live"))
            for key in one.keys
            if (call := self._unanswered.get(key)) is not None
        ]
        await self._keep(finished, one)

    async def _keep(self, finished: FinishedCalls, one: Submitted | None = None) -> None:
        """Write finished calls down, then forget their batch, and only then tell of them."""
        if finished:
            await self._in_thread(self._settings.ledger.add, finished)
        if one is not None:
            await self._in_thread(self._book.end_batch, one)
        for call, completion in finished:
            del self._unanswered[call.key]
            self._answered[call.key] = completion
            cost = charge(self._settings.price, completion.prompt_tokens, completion.completion_tokens)
            self._settings.budget.settle(self._reserved.pop(call.key, 0.0), cost)
        for call, completion in finished:
            self._tell(Finished(call, completion, is_known=False))

    async def _in_thread(self, work: Callable[[U], T], argument: U) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._client.executor, work, argument)

    def _tell_seen(self, state: BatchState, one: Submitted) -> None:
        total = state.total or len(one.keys)
        is_over = state.status in OVER
        self._tell(BatchSeen(state.batch, state.status, min(state.done, total), total, is_over))

    def _tell(self, event: Event) -> None:
        if self._settings.watch is not None:
            self._settings.watch(event)


class BatchClient(ModelClient):
    """Calls one endpoint in batches, for one run; a context manager, closed in the end.

    `complete` returns when all batches are over, which may take a day. Beside what it raises otherwise,
    SolverError E306 says that the endpoint takes no batches, or has refused one. What is under way when it
    raises, or the process dies, is collected by the next client with the same book.
    """

    def __init__(
        self,
        connection: Connection,
        settings: CallSettings,
        book: BatchBook,
        batch_limits: BatchLimits | None = None,
    ) -> None:
        super().__init__(connection, settings)
        self.book = book
        self.batch_limits = batch_limits or BatchLimits()

    def start_round(self, calls: Sequence[Call]) -> BatchRound:
        """Return the calls as they are made in batches."""
        return BatchRound(self, calls)
