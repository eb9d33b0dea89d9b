"""Calls in batches: submitted together, and collected once they are answered.

calls ──► reserved ──► lines ──► recorded ──► batch ──► polled ──► output ──► journal

A batch is recorded before the endpoint begins to work on it. So a later process, even after a
crash, collects it instead of submitting it again. The differences between OpenAI and Anthropic are
in `BatchApi` and its subclass.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from secrets import token_hex
from typing import Any
from urllib.parse import quote, urlsplit

from answerkey.errors import AnswerkeyError, SolverError, hide_secrets
from answerkey.models.batch_lines import (
    UNANSWERED_REASONS,
    get_path,
    read_line,
)
from answerkey.models.calls import (
    BATCH_SOURCE,
    MEGABYTE,
    Answers,
    BatchPending,
    BatchPolled,
    Call,
    Calls,
    CallSettings,
    Finished,
    FinishedCalls,
    Limits,
    SubmittedBatch,
    completion_cost,
    save_calls,
)
from answerkey.models.client import BUDGET_POLL_SECONDS, ModelClient, Round, encode_body
from answerkey.models.providers import CHAT_PATH, Connection
from answerkey.models.responses import (
    ANSWERED,
    Body,
    fail,
    find_error_message,
    get_field,
    list_entries,
    parse_json,
    read_body,
    read_count,
    shorten,
)
from answerkey.models.retry import (
    CallOutcome,
    Health,
    HttpReply,
    HttpRequest,
    Retry,
    RetryVerdict,
    judge,
    read_retry_after,
)
from answerkey.models.store import CallStore
from answerkey.types import Completion

#: The endpoint of each line of a batch: whatever the base URL, the APIs with batches use this path.
ENDPOINT = "/v1/chat/completions"
OVER = frozenset({"completed", "failed", "expired", "cancelled", "ended"})
#: How many seconds clocks may differ.
CLOCK_SECONDS = 600.0
RESUME_HINT = "submitted batches continue at the endpoint; `answerkey resume` collects them"
GIVE_UP_HINT = "no batch is open; if the endpoint has no batches, use `answerkey resume --no-batch`"
#: A batch, a file or a line as JSON of the endpoint.
Fields = Mapping[str, Any]
#: The parts of a file's path.
Path = tuple[str, ...]
#: The lines of calls, by their keys.
Lines = dict[str, bytes]
_GONE = frozenset({"status 404", "status 410", "too_large"})
#: A valid part of a path: not empty, and not one or two dots.
_ID = re.compile(r"(?!\.{1,2}$).{1,512}", re.DOTALL)


@dataclass(frozen=True)
class BatchLimits:
    """How large a batch and its output may be, and how often it is polled (in seconds).

    The pauses between polls grow from `first_poll` to `longest_poll`. The transfer of a file may
    take `transfer_seconds`; an endpoint that cannot be reached for `outage_seconds` is given up.
    """

    max_calls: int = 50_000
    max_bytes: int = 200 * MEGABYTE
    output_bytes: int = 1024 * MEGABYTE
    first_poll: float = 1.0
    longest_poll: float = 60.0
    poll_growth: float = 1.5
    transfer_seconds: float = 1800.0
    outage_seconds: float = 3600.0


class Refused(Exception):  # noqa: N818 - whether it is an error depends on the caller
    """The endpoint refuses a request, or no longer has what is requested; the message says why."""


@dataclass(frozen=True)
class BatchState:
    """The state of a batch; `files` are the paths of its output."""

    batch: str
    status: str
    done: int = 0
    total: int = 0
    errors: object = None
    files: Sequence[Path] = ()

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be answered."""
        return self.status in OVER


class BatchApi:
    """The batches of OpenAI and of compatible endpoints: files and batches next to the chat
    endpoint.

    `known` are the names of batches that are accounted for. Raises SolverError E304 (the key is
    refused) or E306 (no answer despite all attempts).
    """

    #: The fields of a batch with its status, and with the counts of calls.
    status_name = "status"
    done_names: tuple[str, ...] = ("completed", "failed")
    total_names: tuple[str, ...] = ("total",)

    def __init__(self, client: ModelClient, limits: BatchLimits) -> None:
        self._client = client
        self._connection = client.endpoint.connection
        self._limits = limits
        self.known = set[object]()
        self._transfer = replace(
            client.endpoint.limits,
            attempt_seconds=limits.transfer_seconds,
            call_seconds=limits.transfer_seconds + limits.outage_seconds,
        )
        self._wait = replace(
            client.endpoint.limits,
            attempts=1000,
            call_seconds=limits.outage_seconds,
        )

    # The differences between the APIs.

    @staticmethod
    def write_line(key: str, body: object) -> Body:
        """Return the line of a call."""
        return {"custom_id": key, "method": "POST", "url": ENDPOINT, "body": body}

    def list_files(self, shown: Fields) -> list[Path]:
        """Return the paths of a batch's output files."""
        paths: list[Path] = []
        for name in ("output_file_id", "error_file_id"):
            if shown.get(name):
                paths.append(("files", str(shown[name]), "content"))
        return paths

    async def upload(self, content: bytes) -> str:
        """Return the name of a new file with these lines; raise `Refused`."""
        boundary = token_hex(16)
        start = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; '
            'filename="calls.jsonl"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n"
        )
        end = f"\r\n--{boundary}--\r\n"
        request = HttpRequest(
            start.encode() + content + end.encode(),
            url=self._locate("files"),
            content_type=f"multipart/form-data; boundary={boundary}",
        )
        body = await self._fetch(request, self._transfer)
        shown = json.loads(body)
        return self._check_name(shown.get("id"))

    def _order(self, file: str, _content: bytes | None) -> HttpRequest:
        """Return the request that creates a batch; its lines are in the file, or in the request."""
        order = {"input_file_id": file, "endpoint": ENDPOINT, "completion_window": "24h"}
        body = json.dumps(order).encode()
        return HttpRequest(body, url=self._locate("batches"))

    def _is_ours(self, listed: Fields, submitted: SubmittedBatch) -> bool:
        """Return whether a listed batch is the submitted one."""
        return bool(listed.get("input_file_id") == submitted.file)

    # What the APIs have in common.

    def read_state(self, shown: Fields) -> BatchState:
        """Return the state of a batch."""
        errors = get_path(shown, "errors.data") or shown.get("errors")
        return BatchState(
            str(shown.get("id") or ""),
            str(shown.get(self.status_name) or "").lower(),
            _sum_counts(shown, self.done_names),
            _sum_counts(shown, self.total_names),
            errors or shown.get("error"),
            self.list_files(shown),
        )

    async def create(self, submitted: SubmittedBatch, content: bytes | None) -> BatchState:
        """Return the new batch for a file, or an existing one.

        `content` has the lines; None if an earlier process submitted them, which may have created
        the batch. Raises `Refused` if there is no batch.
        """
        body = None
        if content is None:
            body = await self._find(submitted)
        if body is None:
            request = self._order(submitted.file, content)
            body = await self._fetch(request, self._transfer, submitted)
        return self._read(body)

    async def poll(self, batch: str) -> BatchState:
        """Return the state of a batch; raise `Refused` if it no longer exists."""
        request = self._get("batches", batch)
        body = await self._fetch(request, self._wait, is_paid=True)
        return self._read(body)

    async def download(self, file: Path) -> bytes:
        """Return an output file; raise `Refused` if it no longer exists."""
        request = self._get(*file)
        return await self._fetch(
            request,
            self._transfer,
            is_paid=True,
            is_file=True,
        )

    def _get(self, *names: str) -> HttpRequest:
        url = self._locate(*names)
        return HttpRequest(
            None,
            "GET",
            url,
            max_bytes=self._limits.output_bytes,
        )

    async def _find(self, submitted: SubmittedBatch) -> bytes | None:
        """Return the batch for a file if it is among the latest; None also if none are listed."""
        try:
            limits = self._client.endpoint.limits
            body = await self._fetch(self._get("batches"), limits)
        except Refused:
            return None
        page = json.loads(body)
        for batch in list_entries(page.get("data")):
            if isinstance(batch, Mapping) and self._is_ours(batch, submitted):
                return json.dumps(batch).encode()
        return None

    async def _fetch(
        self,
        request: HttpRequest,
        limits: Limits,
        submitted: SubmittedBatch | None = None,
        *,
        is_paid: bool = False,
        is_file: bool = False,
    ) -> bytes:
        """Return the body of the response: a JSON object or a file.

        With `submitted`, the request creates a batch: before another attempt, check whether the
        last one has created it. What is paid for is given up only if it no longer exists.
        """
        clock = self._client.endpoint.clock
        retry = Retry(limits, clock)
        read = partial(self._read_reply, is_file=is_file)
        while True:
            http = self._client.start_http()
            seconds = retry.begin_attempt()
            reply = await http.send(request, seconds=seconds)
            outcome = judge(reply, read)
            if isinstance(reply, HttpReply):
                if outcome.verdict is RetryVerdict.ANSWERED:
                    return reply.body
                pause = read_retry_after(reply.headers, clock.wall())
                outcome = outcome._replace(retry_after=pause)
            wait = retry.choose_wait(outcome)
            if wait is None:
                raise self._explain(outcome, is_paid=is_paid)
            await clock.sleep(wait)
            if submitted is not None and outcome.label != "status 429":
                body = await self._find(submitted)
                if body is not None:
                    return body

    def _read_reply(
        self,
        status: int,
        body: bytes,
        *,
        is_file: bool,
    ) -> Completion:
        """Return an empty completion for a file or a JSON object, otherwise an error.

        A failed batch may have a field `error` without the response being an error.
        """
        if status in ANSWERED and (is_file or b"metadata" in body):
            return Completion("")
        completion = read_body(status, body, lambda _: Completion(""))
        if completion.error is None:
            return completion
        return completion.with_fields(error=hide_secrets(completion.error))

    def _explain(self, outcome: CallOutcome, *, is_paid: bool) -> Exception:
        """Return the error of a request that is not tried again."""
        why = outcome.completion.error or outcome.label
        is_refused = outcome.verdict is RetryVerdict.FAILED
        if is_refused and outcome.label in _GONE:
            return Refused(why)
        # `Health` recognises a refused key and an unknown host.
        health = Health(self._connection)
        error = health.note(outcome, is_final=True)
        if error is None and is_refused and not is_paid:
            return Refused(why)
        return error or self._fail(why)

    def _fail(self, why: str) -> SolverError:
        return SolverError(
            "E306", f"the batches of `{self._connection.name}` fail: {why}", hint=RESUME_HINT
        )

    def _read(self, body: bytes) -> BatchState:
        state = self.read_state(json.loads(body))
        self._check_name(state.batch)
        if not state.status:
            raise self._fail("a batch has no status")
        return state

    def _check_name(self, name: object) -> str:
        if not isinstance(name, str) or not _ID.fullmatch(name):
            raise self._fail("a file or batch has no `id`")
        return name

    def _locate(self, *names: str) -> str:
        parts = urlsplit(self._connection.url)
        path = parts.path.removesuffix(CHAT_PATH)
        for name in names:
            path += f"/{quote(name, safe='')}"
        return parts._replace(path=path, fragment="").geturl()


class AnthropicBatches(BatchApi):
    """Batches of Anthropic: all calls in one request, and one file of results.

    Such a batch does not have our name. If the process ends while a batch is being created, the
    batch is recognised by its time and its number of calls.
    """

    status_name = "processing_status"
    done_names = ("succeeded", "errored", "canceled", "expired")
    total_names = (*done_names, "processing")

    @staticmethod
    def write_line(key: str, body: object) -> Body:
        """Return the entry of a call."""
        return {"custom_id": key, "params": body}

    def list_files(self, shown: Fields) -> list[Path]:
        """Return the path of the results."""
        if not shown.get("results_url"):
            return []
        return [("batches", str(shown.get("id")), "results")]

    async def upload(self, _content: bytes) -> str:
        """Return a name, with the time, for lines that are sent with the batch."""
        return f"answerkey-{self._client.endpoint.clock.wall():.0f}-{token_hex(8)}"

    def _order(self, _file: str, content: bytes | None) -> HttpRequest:
        if content is None:
            raise Refused("it does not exist")
        entries = content.strip().replace(b"\n", b",")
        return HttpRequest(b'{"requests":[%b]}' % entries, url=self._locate("batches"))

    def _is_ours(self, listed: Fields, submitted: SubmittedBatch) -> bool:
        try:
            made_at = datetime.fromisoformat(str(listed.get("created_at")))
        except ValueError:
            return False
        _, uploaded_at, _ = submitted.file.split("-")
        if made_at.timestamp() < float(uploaded_at) - CLOCK_SECONDS:
            return False
        state = self.read_state(listed)
        is_new = state.batch not in self.known
        return is_new and state.total == len(submitted.keys)


def find_batch_api(connection: Connection) -> type[BatchApi]:
    """Return the batch API of a connection."""
    if connection.api.name == "anthropic":
        return AnthropicBatches
    return BatchApi


def _sum_counts(shown: Fields, names: Sequence[str]) -> int:
    """Return the sum of some counts of a batch."""
    total = 0
    for name in names:
        total += read_count(get_path(shown, f"request_counts.{name}")) or 0
    return total


# Lines.


def write_line(connection: Connection, call: Call) -> bytes | Completion:
    """Return a call as a line of a batch's input, or an ERROR if its request cannot be built."""
    try:
        body = connection.build(call.messages)
    except AnswerkeyError as error:
        return fail(error.message).with_fields(prompt=call.messages, source="live")
    line = find_batch_api(connection).write_line(call.key, body)
    return encode_body(line).encode() + b"\n"


def split_into_files(lines: Lines, limits: BatchLimits) -> Iterator[Lines]:
    """Yield the lines in groups that fit into one batch, by the keys of their calls.

    A line that is too large for any batch is alone in its group.
    """
    file: Lines = {}
    size = 0
    for key, line in lines.items():
        size += len(line)
        is_full = len(file) >= limits.max_calls or size > limits.max_bytes
        if file and is_full:
            yield file
            file = {}
            size = len(line)
        file[key] = line
    if file:
        yield file


def read_lines(content: bytes, connection: Connection) -> Iterator[tuple[str, Completion]]:
    """Yield the key and the completion of each line that names a call; never raises."""
    for line in content.split(b"\n"):
        entry = parse_json(line)
        key = get_field(entry, "custom_id")
        if isinstance(key, str):
            yield key, read_line(entry, connection.read)


# Making the calls.


class BatchRound(Round):
    """Makes calls that the ledger does not have, in as few batches as possible; their keys are
    distinct.
    """

    def __init__(self, client: BatchClient, calls: Calls) -> None:
        super().__init__(client, calls)
        self._connection = client.endpoint.connection
        self._call_store = client.store
        self._limits = client.batch_limits
        api = find_batch_api(self._connection)
        self._api = api(client, client.batch_limits)
        self._unanswered = {call.key: call for call in calls}
        self._open = list[SubmittedBatch]()
        self._reserved = dict[str, float]()
        self._refusal: SolverError | None = None

    async def run(self) -> Answers:
        """Return the completions by key; raise the error that stopped it.

        Open batches are then reported.
        """
        self._task = asyncio.current_task()
        try:
            await self._adopt_batches()
            while self._unanswered:
                lines = await self._reserve()
                for file in split_into_files(lines, self._limits):
                    await self._submit(file)
                await self._collect_all()
        finally:
            for submitted in self._open:
                batch = str(submitted.batch)
                self._settings.watch(BatchPending(batch, len(submitted.keys)))
        return self._answered

    def stop(self, reason: BaseException | None, *, grace: float | None = None) -> None:
        """Stop waiting; the batches continue at the endpoint."""
        del reason, grace
        if self._task is not None:
            self._task.cancel()

    async def _adopt_batches(self) -> None:
        """Collect batches of an earlier process that contain calls of ours."""
        identity = self._connection.identity
        batches = await self._in_thread(self._call_store.list_batches, identity)
        self._api.known.update(batch.batch for batch in batches)
        for batch in batches:
            ours = self._unanswered.keys() & set(batch.keys)
            if not ours:
                continue
            opened = batch
            try:
                if batch.batch is None:
                    opened = await self._create(batch, None)
            except Refused:  # it never became a batch: submit its calls again
                await self._in_thread(self._call_store.end_batch, batch)
                continue
            self._settings.budget.admit(len(ours))
            self._open.append(opened)
        await self._collect_all()

    async def _reserve(self) -> Lines:
        """Return the lines of as many calls as the budget has room for, at least one.

        Raises E305 if there is no room for any.
        """
        lines: Lines = {}
        invalid = []
        for call in self._unanswered.values():
            line = write_line(self._connection, call)
            if isinstance(line, Completion):
                invalid.append((call, line))
                continue
            price = self._settings.price
            cost = self._endpoint.estimate_cost(line, price, is_batch=True)
            if not await self._has_room(cost, is_first=not lines):
                break
            self._reserved[call.key] = cost
            lines[call.key] = line
        await self._keep(invalid)
        return lines

    async def _has_room(self, cost: float, *, is_first: bool) -> bool:
        """Reserve the cost of a call if there is room; wait for the room of the first one."""
        budget = self._settings.budget
        try:
            while not budget.reserve(cost):
                if not is_first:
                    return False
                await self._endpoint.clock.sleep(BUDGET_POLL_SECONDS)
        except AnswerkeyError:
            if is_first:
                raise
            return False
        return True

    async def _submit(self, file: Lines) -> None:
        """Submit calls; the batch is recorded before the endpoint can begin to work."""
        content = b"".join(file.values())
        try:
            uploaded = await self._api.upload(content)
            identity = self._connection.identity
            submitted = SubmittedBatch(uploaded, identity, list(file))
            await self._in_thread(self._call_store.keep_batch, submitted)
            try:
                self._open.append(await self._create(submitted, content))
            except Refused:
                await self._in_thread(self._call_store.end_batch, submitted)
                raise
        except Refused as error:
            raise SolverError(
                "E306",
                f"the endpoint of `{self._connection.name}` does not accept a batch: {error}",
                hint=GIVE_UP_HINT,
            ) from None

    async def _create(self, submitted: SubmittedBatch, content: bytes | None) -> SubmittedBatch:
        """Create a batch, or find the one that an earlier process created; record its name."""
        state = await self._api.create(submitted, content)
        opened = replace(submitted, batch=state.batch)
        await self._in_thread(self._call_store.keep_batch, opened)
        self._api.known.add(state.batch)
        self._report(opened, state)
        return opened

    async def _collect_all(self) -> None:
        """Poll the batches, with growing pauses, until each is over and collected."""
        wait = self._limits.first_poll
        while self._open:
            for submitted in list(self._open):
                await self._poll(submitted)
            if self._open:
                await self._endpoint.clock.sleep(wait)
                wait *= self._limits.poll_growth
                wait = min(self._limits.longest_poll, wait)
        if self._refusal is not None:
            raise self._refusal

    async def _poll(self, submitted: SubmittedBatch) -> None:
        """Collect a batch if it is over."""
        name = str(submitted.batch)
        try:
            state = await self._api.poll(name)
        except Refused as error:
            state = BatchState(name, "gone", errors=f"the batch no longer exists: {error}")
        else:
            self._report(submitted, state)
            if not state.is_over:
                return
        completions = await self._download(state)
        self._open.remove(submitted)
        message = hide_secrets(shorten(find_error_message(state.errors)))
        if state.status == "failed" and not completions:
            # The endpoint accepted the batch but did not start it; the other batches are collected
            # first.
            why = message or "it gives no reason"
            self._refusal = SolverError(
                "E306",
                f"the endpoint of `{self._connection.name}` refuses the batch `{name}`: {why}",
                hint="none of its calls was answered; `answerkey resume` submits them again",
            )
            await self._in_thread(self._call_store.end_batch, submitted)
            return
        why = UNANSWERED_REASONS.get(state.status, "the batch has no result for this call")
        unanswered = fail(message or why)
        finished = []
        for key in submitted.keys:
            call = self._unanswered.get(key)
            if call is None:
                continue
            # The latency of a single line is unknown.
            completion = completions.get(key, unanswered).with_fields(
                prompt=call.messages,
                attempts=1,
                source=BATCH_SOURCE,
            )
            finished.append((call, completion))
        await self._keep(finished, submitted)

    async def _download(self, state: BatchState) -> Answers:
        """Return the completions in a batch's output, by the keys of the calls.

        A call's answer, which comes first, takes precedence over its error.
        """
        completions: Answers = {}
        for file in state.files:
            try:
                content = await self._api.download(file)
            except Refused as error:
                missing = fail(f"a file of the batch cannot be downloaded: {error}")
                completions = dict.fromkeys(self._unanswered, missing) | completions
                continue
            for key, completion in read_lines(content, self._connection):
                completions.setdefault(key, completion)
        return completions

    async def _keep(self, finished: FinishedCalls, submitted: SubmittedBatch | None = None) -> None:
        """Store finished calls, then forget their batch, and only then report them."""
        if finished:
            keep = partial(save_calls, self._settings.ledger)
            await self._in_thread(keep, finished)
        if submitted is not None:
            await self._in_thread(self._call_store.end_batch, submitted)
        for call, completion in finished:
            del self._unanswered[call.key]
            self._answered[call.key] = completion
            cost = completion_cost(self._settings.price, completion)
            reserved = self._reserved.pop(call.key, 0.0)
            self._settings.budget.settle(reserved, cost)
        for call, completion in finished:
            self._settings.watch(Finished(call, completion))

    def _report(self, submitted: SubmittedBatch, state: BatchState) -> None:
        """Report the progress of a batch."""
        total = state.total or len(submitted.keys)
        done = min(state.done, total)
        batch = str(submitted.batch)
        seen = BatchPolled(
            batch,
            state.status,
            done,
            total,
            state.is_over,
        )
        self._settings.watch(seen)


class BatchClient(ModelClient):
    """Calls one endpoint in batches, for one run; a context manager.

    `complete` returns when all batches are over, which may take a day. SolverError E306 also means
    that the endpoint accepts no batches, or has refused one. Batches that are open when it raises,
    or when the process ends, are collected by the next client with the same store.
    """

    def __init__(
        self,
        connection: Connection,
        settings: CallSettings,
        store: CallStore,
        batch_limits: BatchLimits | None = None,
    ) -> None:
        super().__init__(connection, settings)
        self.store = store
        self.batch_limits = batch_limits or BatchLimits()

    def start_round(self, calls: Calls) -> BatchRound:
        """Return a round that makes these calls in batches."""
        return BatchRound(self, calls)
