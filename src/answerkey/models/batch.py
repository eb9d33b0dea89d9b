"""Calls in batches: handed in together, and collected when they are answered.

calls ──► reserved ──► lines ──► file ──► written down ──► batch ──► looked at ──► output ──► journal

What is under way is written down before the endpoint begins to work on it. So whoever comes later, after a
sudden death as well, collects it instead of handing it in again.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from secrets import token_hex
from typing import Any, Protocol, TypeGuard, TypeVar, Unpack
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from answerkey.errors import AnswerkeyError, SolverError, SpecError
from answerkey.models.calls import (
    BUDGET_POLL_SECONDS,
    BatchLeft,
    BatchSeen,
    Call,
    ClientSettings,
    Event,
    Finished,
    ModelClient,
    Terms,
    charge,
    open_client,
)
from answerkey.models.providers import AZURE_HOSTS, Connection, OpenAiChat
from answerkey.models.responses import ANSWERED, Said, fail, find_complaint, read_body, shorten
from answerkey.models.retry import (
    MEGABYTE,
    EndpointState,
    Health,
    Limits,
    NoReply,
    Outcome,
    Patience,
    Reply,
    Request,
    Verdict,
    judge_no_reply,
    judge_reply,
    read_retry_after,
)
from answerkey.types import Completion, CompletionStatus


@dataclass(frozen=True)
class Submitted:
    """Calls handed in together: the file that was uploaded, and the batch once its name is known.

    `identity` is that of the connection. A batch without a name may be under way all the same: the process
    may have died while it was being created.
    """

    file: str
    identity: str
    keys: Sequence[str]
    batch: str | None = None


class BatchBook(Protocol):
    """Where batches are written down; used by one thread at a time."""

    def list_batches(self, identity: str) -> list[Submitted]:
        """Return the batches of a connection that are not collected yet, the oldest first."""

    def keep_batch(self, batch: Submitted) -> None:
        """Write a batch down, or its name; it is safe when this returns."""

    def end_batch(self, batch: Submitted) -> None:
        """Forget a batch: its calls are in the ledger, or there was nothing to collect."""


#: Where each line of a batch is sent, whatever the base URL: the APIs that have batches name it like this.
ENDPOINT = "/v1/chat/completions"
_OK = 200
_LONGEST = 300


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


@dataclass(frozen=True, slots=True)
class Written:
    """A call as a line of a batch's input, with its line break."""

    call: Call
    line: bytes


def write_line(connection: Connection, call: Call) -> Written | Completion:
    """Return a call as a line; a completion with status ERROR when its request cannot be built."""
    try:
        body = connection.build(call.messages)
    except AnswerkeyError as error:
        return Completion(None, CompletionStatus.ERROR, call.messages, error=error.message, source="live")
    line = {"custom_id": call.key, "method": "POST", "url": ENDPOINT, "body": body}
    return Written(call, json.dumps(line, separators=(",", ":"), default=str).encode() + b"\n")


def cut_files(lines: Iterable[Written], limits: BatchLimits) -> Iterator[list[Written]]:
    """Yield the lines in lists that each fit into one batch; a line too large for any is alone."""
    file: list[Written] = []
    size = 0
    for one in lines:
        if file and (len(file) >= limits.max_calls or size + len(one.line) > limits.max_bytes):
            yield file
            file, size = [], 0
        file.append(one)
        size += len(one.line)
    if file:
        yield file


def read_lines(content: bytes, connection: Connection) -> Iterator[tuple[str, Completion]]:
    """Yield key and completion of each line that names a call, in the order of the file; never raises.

    A line that cannot be read names no call.
    """
    for raw in io.BytesIO(content):
        line = _parse(raw)
        key = line.get("custom_id")
        if isinstance(key, str):
            yield key, _read_line(line, connection)


def _parse(raw: bytes) -> Mapping[str, Any]:
    try:
        line = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return line if isinstance(line, dict) else {}


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
    reply = Reply(status if isinstance(status, int) else _OK, {}, raw)
    return judge_reply(reply, connection.read).completion


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


class BatchSender(Protocol):
    """Carries requests to any path of one endpoint."""

    async def send(self, request: Request, *, seconds: float) -> Reply | NoReply:
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

    def __init__(self, line: EndpointState, sender: BatchSender, limits: BatchLimits) -> None:
        self._endpoint = line
        self._sender = sender
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
        return self._take_id(_parse_body(await self._fetch(request, self._transfer)))

    async def create(self, file: str) -> BatchState:
        """Return the new batch over a file, or the one that is there in spite of a trouble.

        Raises `Refused`; there is no batch then.
        """
        wanted = {"input_file_id": file, "endpoint": ENDPOINT, "completion_window": WINDOW}
        request = Request("POST", self._locate("batches"), json.dumps(wanted).encode())

        async def recall() -> bytes | None:
            found = await self._find(file)
            return None if found is None else json.dumps(found).encode()

        return self._read(_parse_body(await self._fetch(request, self._endpoint.limits, recall)))

    async def find(self, file: str) -> BatchState | None:
        """Return the batch over a file, if there is one; None as well where batches are not listed."""
        found = await self._find(file)
        return None if found is None else self._read(found)

    async def look(self, batch: str) -> BatchState:
        """Return how far a batch is; raises `Gone`."""
        request = Request("GET", self._locate("batches", batch))
        return self._read(_parse_body(await self._fetch_sure(request, self._wait)))

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
                page = _parse_body(await self._fetch(Request("GET", url), self._endpoint.limits))
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
        clock = self._endpoint.clock
        patience = Patience(limits, clock, self._endpoint.draw)
        while True:
            came = await self._sender.send(request, seconds=patience.begin_attempt())
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

    def _judge(self, came: Reply | NoReply, *, is_file: bool) -> Outcome:
        if isinstance(came, NoReply):
            return judge_no_reply(came)

        def read(status: int, _: Mapping[str, str], body: bytes) -> Completion:
            if is_file and status in ANSWERED:
                return Completion("")
            found = read_body(status, body, lambda _: Said(texts=[""]))
            return replace(found, error=found.error and self._endpoint.connection.hide(found.error))

        wait = read_retry_after(came.headers, self._endpoint.clock.wall())
        return judge_reply(came, read)._replace(retry_after=wait)

    def _give_up(self, outcome: Outcome) -> SolverError | Refused:
        why = outcome.completion.error or outcome.label
        if outcome.verdict is Verdict.FAILED and outcome.label in _GONE:
            return Gone(why)
        # It knows a key that is refused, and a host that is not there.
        connection = self._endpoint.connection
        error = Health(connection.name, connection.host).note(outcome, is_final=True)
        if error is None and outcome.verdict is Verdict.FAILED:
            return Refused(why)
        return error or self._fail(why)

    def _fail(self, why: str) -> SolverError:
        return SolverError(
            "E306", f"the batches of `{self._endpoint.connection.name}` fail: {why}", hint=RESUME_HINT
        )

    def _read(self, found: Mapping[str, Any]) -> BatchState:
        counts = found.get("request_counts")
        counts = counts if isinstance(counts, Mapping) else {}
        status, errors = found.get("status"), found.get("errors")
        errors = errors.get("data", errors) if isinstance(errors, Mapping) else errors
        if not isinstance(status, str):
            raise self._fail("a batch that it shows has no status")
        return BatchState(
            batch=self._take_id(found),
            status=status.lower(),
            files=tuple(filter(_is_name, (found.get("output_file_id"), found.get("error_file_id")))),
            done=_count(counts, "completed") + _count(counts, "failed"),
            total=_count(counts, "total"),
            complaint=self._endpoint.connection.hide(shorten(find_complaint(errors))),
        )

    def _take_id(self, found: Mapping[str, Any]) -> str:
        name = found.get("id")
        if not _is_name(name):
            raise self._fail("a file or batch that it shows has no `id`")
        return name

    def _locate(self, *names: str, **query: str) -> str:
        parts = urlsplit(self._endpoint.connection.url)
        path = parts.path.removesuffix(CHAT_PATH) + "".join(f"/{quote(name, safe='')}" for name in names)
        asked = "&".join(one for one in (parts.query, urlencode(query)) if one)
        return urlunsplit((parts.scheme, parts.netloc, path, asked, ""))


def _is_name(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and value not in {"", ".", ".."} and len(value) <= _LONGEST_ID


def _count(counts: Mapping[str, Any], name: str) -> int:
    found = counts.get(name)
    return found if isinstance(found, int) and found > 0 else 0


def _parse_body(body: bytes) -> Mapping[str, Any]:
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


T = TypeVar("T")
U = TypeVar("U")
#: Why a call has no line in the output, by how its batch ended.
SILENCE = {
    "completed": "the batch says nothing of this call",
    "expired": "the batch expired before this call was answered",
    "cancelled": "the batch was cancelled before this call was answered",
}
GIVE_UP_HINT = "nothing is under way; if the endpoint has no batches, `answerkey resume --no-batch` goes on"


@dataclass(frozen=True)
class BatchMeans:
    """What batches need beside the terms of asking: where they are written down, their limits, and HTTP."""

    book: BatchBook
    limits: BatchLimits = field(default_factory=BatchLimits)
    open_sender: Callable[[Connection, Limits], BatchSender] = open_client


class BatchRound:
    """Asks calls with distinct keys, all of them unknown to the ledger, in as few batches as can be."""

    def __init__(
        self, line: EndpointState, sender: BatchSender, terms: Terms, means: BatchMeans, calls: Sequence[Call]
    ) -> None:
        self._endpoint = line
        self._terms = terms
        self._means = means
        self._api = BatchApi(line, sender, means.limits)
        self._rest = {call.key: call for call in calls}
        self._open: list[Submitted] = []
        self._reserved: dict[str, float] = {}
        self._answered: dict[str, Completion] = {}
        self._refusal: SolverError | None = None
        self._task: asyncio.Task[object] | None = None

    async def run(self) -> dict[str, Completion]:
        """Return the completions by key; raise what made it stop. Batches under way are told of then."""
        self._task = asyncio.current_task()
        try:
            await self._take_up()
            while self._rest:
                for file in cut_files(await self._reserve(), self._means.limits):
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
        book = self._means.book
        for one in await self._in_thread(book.list_batches, self._endpoint.connection.identity):
            ours = self._rest.keys() & set(one.keys)
            if not ours:
                continue
            try:
                named = one if one.batch is not None else await self._name(one, is_new=False)
            except Refused:  # it never came to a batch; its calls are handed in anew
                await self._in_thread(book.end_batch, one)
                continue
            self._terms.budget.admit(len(ours))
            self._open.append(named)
        await self._collect_all()

    async def _reserve(self) -> list[Written]:
        """Return as many of the calls as the budget has room for now, at least one; E305 without any."""
        lines: list[Written] = []
        hopeless: list[tuple[Call, Completion]] = []
        for call in self._rest.values():
            written = write_line(self._endpoint.connection, call)
            if isinstance(written, Completion):
                hopeless.append((call, written))
            elif await self._has_room(written, is_first=not lines):
                lines.append(written)
            else:
                break
        await self._keep(hopeless)
        return lines

    async def _has_room(self, written: Written, *, is_first: bool) -> bool:
        """Return whether a call may be made, and set its cost aside; the first one waits for room."""
        cost = charge(self._terms.price, *self._endpoint.estimate_tokens(written.line))
        try:
            while not self._terms.budget.reserve(cost):
                if not is_first:
                    return False
                await self._endpoint.clock.sleep(BUDGET_POLL_SECONDS)
        except AnswerkeyError:
            if is_first:
                raise
            return False
        self._reserved[written.call.key] = cost
        return True

    async def _submit(self, file: Sequence[Written]) -> None:
        """Hand calls in; they are written down before the endpoint may begin to work."""
        book, name = self._means.book, self._endpoint.connection.name
        try:
            uploaded = await self._api.upload(b"".join(one.line for one in file))
            keys = [one.call.key for one in file]
            submitted = Submitted(uploaded, self._endpoint.connection.identity, keys)
            await self._in_thread(book.keep_batch, submitted)
            try:
                self._open.append(await self._name(submitted, is_new=True))
            except Refused:
                await self._in_thread(book.end_batch, submitted)
                raise
        except Refused as trouble:
            message = f"the endpoint of `{name}` takes no batch: {trouble}"
            raise SolverError("E306", message, hint=GIVE_UP_HINT) from None

    async def _name(self, submitted: Submitted, *, is_new: bool) -> Submitted:
        """Return a batch with its name, written down; it is created unless it is there already."""
        found = None if is_new else await self._api.find(submitted.file)
        state = found or await self._api.create(submitted.file)
        named = replace(submitted, batch=state.batch)
        await self._in_thread(self._means.book.keep_batch, named)
        self._tell(_see(state, named))
        return named

    async def _collect_all(self) -> None:
        """Look at the batches, with growing pauses, until each is over and collected."""
        limits = self._means.limits
        wait = limits.first_poll
        while self._open:
            for one in list(self._open):
                await self._look(one)
            if self._open:
                await self._endpoint.clock.sleep(wait)
                wait = min(limits.longest_poll, wait * limits.poll_growth)
        if self._refusal is not None:
            raise self._refusal

    async def _look(self, one: Submitted) -> None:
        try:
            state = await self._api.look(one.batch or "")
        except Gone as trouble:
            state = BatchState(one.batch or "", "gone", complaint=f"the batch is not there: {trouble}")
        else:
            self._tell(_see(state, one))
            if not state.is_over:
                return
        said = await self._download(state)
        if state.status == "failed" and not said:
            await self._refuse(one, state)
        else:
            await self._settle(one, said, state)

    async def _download(self, state: BatchState) -> dict[str, Completion]:
        """Return what a batch says by key; an answer wins over an error of the same call."""
        said: dict[str, Completion] = {}
        for file in state.files:
            try:
                content = await self._api.download(file)
            except Gone as trouble:
                why = f"a file of the batch cannot be had: {trouble}"
                said |= {key: fail(why) for key in self._rest if key not in said}
                continue
            for key, completion in read_lines(content, self._endpoint.connection):
                said.setdefault(key, completion)
        return said

    async def _refuse(self, one: Submitted, state: BatchState) -> None:
        """Note that the endpoint took a batch and did not begin with it; the others are collected first."""
        why = state.complaint or "it gives no reason"
        message = f"the endpoint of `{self._endpoint.connection.name}` refuses the batch `{one.batch}`: {why}"
        hint = "nothing of it was answered; `answerkey resume` hands its calls in again"
        self._refusal = SolverError("E306", message, hint=hint)
        self._open.remove(one)
        await self._in_thread(self._means.book.end_batch, one)

    async def _settle(self, one: Submitted, said: dict[str, Completion], state: BatchState) -> None:
        silence = state.complaint or SILENCE.get(state.status, f"the batch is {state.status}")
        calls = [self._rest[key] for key in one.keys if key in self._rest]
        # How long one line took, nobody tells.
        finished = [
            (
                call,
                replace(said.get(call.key) or fail(silence), prompt=call.messages, attempts=1, source="live"),
            )
            for call in calls
        ]
        self._open.remove(one)
        await self._keep(finished, one)

    async def _keep(self, finished: Sequence[tuple[Call, Completion]], one: Submitted | None = None) -> None:
        """Write finished calls down, then forget their batch, and only then tell of them."""
        if finished:
            await self._in_thread(self._terms.ledger.add, finished)
        if one is not None:
            await self._in_thread(self._means.book.end_batch, one)
        for call, completion in finished:
            del self._rest[call.key]
            self._answered[call.key] = completion
            cost = charge(self._terms.price, completion.prompt_tokens, completion.completion_tokens)
            self._terms.budget.settle(self._reserved.pop(call.key, 0.0), cost)
        for call, completion in finished:
            self._tell(Finished(call, completion, is_known=False))

    async def _in_thread(self, work: Callable[[U], T], argument: U) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._terms.executor, work, argument)

    def _tell(self, event: Event) -> None:
        if self._terms.watch is not None:
            self._terms.watch(event)


def _see(state: BatchState, one: Submitted) -> BatchSeen:
    total = state.total or len(one.keys)
    return BatchSeen(state.batch, state.status, min(state.done, total), total, state.is_over)


class BatchClient(ModelClient):
    """Asks one endpoint in batches, for one run; a context manager, closed in the end.

    `ask` returns when all batches are over, which may take a day. Beside what asking raises, SolverError E306
    says that the endpoint takes no batches, or has refused one. What is under way when `ask` raises, or the
    process dies, is collected by the next asking with the same book.
    """

    def __init__(
        self, connection: Connection, batches: BatchMeans, **settings: Unpack[ClientSettings]
    ) -> None:
        super().__init__(connection, **settings)
        self._batches = batches
        self._batch_sender: BatchSender | None = None

    async def _open_round(self, calls: Sequence[Call]) -> BatchRound:
        if self._batch_sender is None:
            line = self._endpoint
            self._batch_sender = self._batches.open_sender(line.connection, line.limits)
            self._background.stop_with(self._batch_sender.close)
        return BatchRound(self._endpoint, self._batch_sender, self._terms, self._batches, calls)


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
