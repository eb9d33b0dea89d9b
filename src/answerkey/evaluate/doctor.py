"""`doctor`: a few small calls that show whether an endpoint will give numbers that can be trusted.

    three questions, list of models ──► a small call or more for each further check ──► findings

No call goes through the cache or the journal, none is retried, and each has a timeout.
`doctor.toml` has the questions, what each finding means for the numbers, and what to do.
"""

from __future__ import annotations

import asyncio
import re
import time
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any, cast

from answerkey.errors import SolverError, SpecError, hide_secrets, listing, suggest
from answerkey.evaluate.job import open_jobs
from answerkey.evaluate.run import (
    TaskSource,
    read_options,
    read_plan,
)
from answerkey.evaluate.session import choose_price, require_callable
from answerkey.evaluate.tasks import mcqa
from answerkey.models.calls import Limits, charge
from answerkey.models.client import encode_body
from answerkey.models.config import Price
from answerkey.models.http import HttpClient, list_models
from answerkey.models.logprobs import read_positions
from answerkey.models.model import LiveModel, calls_endpoint
from answerkey.models.responses import fail
from answerkey.models.retry import CallOutcome, Health, HttpRequest, RetryVerdict, judge
from answerkey.reader.markup import split_thoughts
from answerkey.scorers import asks_model, find_role
from answerkey.solvers.single_turn import SingleTurnSolver
from answerkey.solvers.solver import raise_row_errors
from answerkey.spec import Job
from answerkey.text import shorten
from answerkey.types import Completions, Score, Validity

Prompt = Sequence[Mapping[str, object]]
Finding = dict[str, str]

#: Tokens of a reply to a question where the model has no `max_tokens`, and the most in any case.
USUAL_TOKENS = 512
MOST_TOKENS = 4096
#: The token limit of the other calls to a model that does not think: the smallest that OpenAI's
#: Responses API accepts.
FEW_TOKENS = 16
#: The number of likely tokens to request, which most endpoints allow; and the fewest that can
#: contain all letters of a question.
ALTERNATIVES = 5
FEWEST_ALTERNATIVES = 4
#: Any model that sees the built-in questions gets at least this many right.
FEWEST_RIGHT = 2
REPEATS = 3
#: The questions, and the meaning of the findings.
TEXTS = tomllib.loads((files("answerkey.evaluate") / "doctor.toml").read_text(encoding="utf-8"))
QUESTIONS = TEXTS["questions"]
#: The tokens that a chat template puts around a turn; in a reply they mean that the end of the turn
#: was missed.
_TURN = re.compile(
    r"<\|(im_(start|end)|eot_id|(start|end)_header_id)\|>|<(start|end)_of_turn>|\[/?INST\]"
)
_BARE_LETTER = re.compile(r"[\W_]*\w[\W_]*")
_SHOWN = 60
#: The finding for each reason why replies cannot be read.
_UNREAD = {
    "TRUNCATED_THINKING": "thoughts",
    "EMPTY": "empty",
    "NO_TEXT": "empty",
    "REFUSED": "empty",
}


def report(
    status: str,
    name: str,
    seen: str,
    advice: str = "",
) -> Finding:
    """Return a finding without secrets: its check and status, what was seen, what that means and
    what to do.
    """
    means, usual = TEXTS["findings"].get(name, ("", ""))
    return {
        "check": name.partition(":")[0],
        "status": status,
        "seen": hide_secrets(seen),
        "means": means,
        "advice": hide_secrets(advice or usual),
    }


class Trial(CallOutcome):
    """The result of a call."""

    @property
    def is_answered(self) -> bool:
        """Whether there is a reply, with or without text."""
        return self.verdict is RetryVerdict.ANSWERED

    @property
    def text(self) -> str:
        """The text without white space around it; "" without any."""
        return (self.completion.text or "").strip()

    @property
    def why(self) -> str:
        """Why there is no text."""
        return self.completion.error or "no text came"

    @property
    def thinks(self) -> bool:
        """Whether there are thoughts beside the answer, in whichever form."""
        completion = self.completion
        has_reasoning = completion.reasoning or completion.reasoning_tokens
        return bool(has_reasoning or split_thoughts(self.text))

    @property
    def is_cut(self) -> bool:
        """Whether the limit of tokens ended the reply before anything but thoughts came."""
        return self.completion.finish_reason == "length" and not self.text


def _show_example(replies: Sequence[Trial]) -> str:
    """Return the first text among replies, as a finding shows it."""
    for reply in replies:
        if reply.text:
            return f"; for example {shorten(reply.text, _SHOWN)!r}"
    return ""


def _list_invalid(scores: Sequence[Score]) -> list[str]:
    """Return why replies cannot be read, one reason for each that cannot."""
    reasons = []
    for score in scores:
        if score.metadata.get("completion_validity") == Validity.INVALID.value:
            reasons.append(str(score.metadata["validity_reason"]))
    return reasons


def examine(
    model: str,
    task: TaskSource | None,
    seconds: float,
    **options: object,
) -> dict[str, Any]:
    """Call a model a few times and return the findings, as `--json` prints them.

    Options as for `run`. A call may take so many seconds.
    With a task, its first samples are asked, and read by its own scorer; without one, built-in
    questions are.
    """
    source = task
    values = {
        **options,
        "model": model,
        "num_samples": len(QUESTIONS),
    }
    if source is None:
        source = mcqa(
            question="{{ sample.question }}",
            options="{{ sample.options }}",
            truth="{{ sample.answer }}",
        )
        values["dataset"] = QUESTIONS
    chosen = read_options("doctor", values)
    plan = read_plan(source, chosen)
    [job] = open_jobs(plan.jobs[:1], chosen)
    endpoint = job.model
    solver = job.task.solver
    if not calls_endpoint(endpoint) or solver is None or not solver.sends_prompts:
        message = f"`doctor` asks an endpoint: `{model}` is none, or the task asks nothing"
        hint = "name a model as `provider/NAME` or `http://HOST/v1#NAME`"
        raise SpecError("E119", message, hint=hint)
    require_callable([job], chosen)
    price = choose_price(endpoint, chosen)
    begun = time.monotonic()
    examination = Examination(
        job,
        price,
        seconds,
        is_own=task is not None,
    )
    checks = asyncio.run(examination.run())
    tokens = examination.tokens
    cost = None
    if price is not None:
        cost = round(charge(price, tokens["prompt"], tokens["completion"]), 6)
    return {
        "model": endpoint.name,
        "task": None if task is None else job.key,
        "good": all(finding["status"] != "failed" for finding in checks),
        "answered": examination.is_answered,
        "checks": checks,
        "calls": examination.calls,
        "prompt_tokens": tokens["prompt"],
        "completion_tokens": tokens["completion"],
        "cost": cost,
        "seconds": round(time.monotonic() - begun, 3),
    }


class Examination:
    """The calls to one endpoint, and the checks of their replies.

    `is_own` if a task of the user's asks. `limit` is how many tokens a reply to a question may
    have, `few` the same for the other calls.
    """

    def __init__(
        self,
        job: Job,
        price: Price | None,
        seconds: float,
        *,
        is_own: bool,
    ) -> None:
        self.task = job.task
        self.price = price
        self.seconds = seconds
        self.is_own = is_own
        self.connection = cast("LiveModel", job.model).connection
        self.samples = job.dataset.rows.slice(0, len(QUESTIONS)).load()
        solver = cast("SingleTurnSolver", job.task.solver)
        self.prompts = cast("list[Prompt]", solver.build_prompts(self.samples, job.examples))
        raise_row_errors(self.samples, self.prompts)
        self.calls = 0
        self.tokens = Counter[str]()
        self.is_answered = False
        self.few = FEW_TOKENS
        max_tokens = self.connection.generation.max_tokens
        self.limit = min(max_tokens or USUAL_TOKENS, MOST_TOKENS)
        self.is_own_limit = max_tokens != self.limit  # a run has none, or a larger one

    async def run(self) -> list[Finding]:
        """Make the calls, independent ones at the same time, and return the findings."""
        limits = Limits(connect_seconds=min(self.seconds, Limits.connect_seconds))
        self.http = HttpClient(self.connection, limits)
        try:
            asking = [self.ask(prompt, self.limit) for prompt in self.prompts]
            models, replies = await asyncio.gather(
                list_models(self.connection, self.http, seconds=self.seconds),
                asyncio.gather(*asking),
            )
            answered = [reply for reply in replies if reply.is_answered]
            self.is_answered = bool(answered)
            if not answered:
                return [self.explain_silence(replies, models)]
            if any(reply.thinks or reply.is_cut for reply in answered):
                self.few = self.limit
            further_findings = await asyncio.gather(
                self.check_template(answered),
                self.check_logprobs(),
                self.check_repeats(),
            )
            return [
                *self.check_reach(replies, models),
                self.check_letters(replies),
                self.check_thoughts(answered),
                *further_findings,
                self.check_price(),
            ]
        finally:
            await self.http.close()

    async def ask(
        self,
        prompt: Prompt,
        limit: int,
        **changes: object,
    ) -> Trial:
        """Return the reply to a prompt, with other parameters."""
        api = self.connection.api
        unfit = api.unsupported.intersection(changes)
        if unfit:
            reason = f"{api.title} does not take {listing(sorted(unfit))}"
            return Trial(RetryVerdict.FAILED, fail(reason))
        parameters: dict[str, Any] = {"echo": None, **changes}
        if "max_tokens" not in api.unsupported:
            parameters["max_tokens"] = limit
        generation = replace(self.connection.generation, **parameters)
        connection = replace(self.connection, generation=generation)
        try:
            body = encode_body(connection.build(prompt)).encode()
        except SolverError as error:
            return Trial(RetryVerdict.FAILED, fail(error.message))
        self.calls += 1
        reply = await self.http.send(HttpRequest(body), seconds=self.seconds)
        trial = Trial(*judge(reply, connection.read))
        completion = trial.completion
        self.tokens["prompt"] += completion.prompt_tokens or 0
        self.tokens["completion"] += completion.completion_tokens or 0
        return trial

    def explain_silence(self, replies: Sequence[Trial], models: Sequence[str]) -> Finding:
        """Explain why no question is answered, in the words of a run that stops."""
        label = replies[0].label
        why = replies[0].why
        if label == "status 429":
            return report("failed", "rate limits: refused", why)
        if label == "timeout":
            return report("failed", "reachable: late", why)
        health = Health(self.connection)
        failure = None
        for reply in replies:
            failure = health.note(reply, is_final=True)
        if failure is None:
            return report("failed", "request: refused", why)
        advice = (failure.hint or "").partition(";")[0].removesuffix(", and start a new run")
        if failure.code == "E304":
            return report(
                "failed",
                "key: refused",
                failure.message,
                advice,
            )
        if label in {"model_not_found", "status 404"}:
            advice = self._suggest_model(models) or advice
            return report(
                "failed",
                "model: unknown",
                failure.message,
                advice,
            )
        return report(
            "failed",
            "reachable: not",
            failure.message,
            advice,
        )

    def _suggest_model(self, models: Sequence[str]) -> str:
        if not models:
            return ""
        near = suggest(self.connection.model or self.connection.name, models)
        return near or f"models there: {listing(models, limit=5)}"

    def check_reach(self, replies: Sequence[Trial], models: Sequence[str]) -> list[Finding]:
        """Check whether the endpoint answers every question, and with the model that is named."""
        reached = report("good", "reachable", f"`{self.connection.host}` replies")
        refused = [reply for reply in replies if not reply.is_answered]
        if refused:
            seen = f"{len(refused)} of {len(replies)} questions: {refused[0].why}"
            reached = report("warning", "reachable: some", seen)
        name = self.connection.model or self.connection.name
        names = {model.partition(":")[0] for model in models}
        if names and name.partition(":")[0] not in names:
            seen = f"`{name}` answers, and the endpoint does not list it"
            advice = self._suggest_model(models)
            return [
                reached,
                report(
                    "warning",
                    "model: not listed",
                    seen,
                    advice,
                ),
            ]
        return [reached, report("good", "model", f"`{name}` answers")]

    def check_letters(self, replies: Sequence[Trial]) -> Finding:
        """Check whether replies to the questions can be read by the scorer of a run."""
        check = "one letter"
        scorer = self.task.main_step.scorer
        places = [place for place, reply in enumerate(replies) if reply.is_answered]
        answered = [replies[place] for place in places]
        example = _show_example(answered)
        if asks_model(scorer) and find_role(scorer) == "judge":
            return report("note", check, f"a model judges the replies: not tried{example}")
        samples = self.samples.take(places)
        completions = [reply.completion for reply in answered]
        table = Completions.build(samples.ids, completions, source="live")
        scores = scorer.score(samples, table)
        right = sum(score.values.get("is_correct") == 1 for score in scores)
        rule = getattr(scorer, "rule_name", scorer.type)
        count = len(answered)
        if "completion_validity" not in (scorer.metadata_types or ()):
            return report("note", check, f"scorer `{rule}`: {right} of {count} right{example}")
        reasons = _list_invalid(scores)
        if reasons:
            reason = max(reasons, key=reasons.count)
            seen = f"`{rule}` cannot read {len(reasons)} of {count} replies ({reason}){example}"
            status = self._judge_unread(answered, len(reasons))
            return report(status, f"{check}: {_UNREAD.get(reason, 'unread')}", seen)
        seen = f"`{rule}` reads {count} of {count} replies, {right} right{example}"
        return self._compare_letters(answered, right, seen)

    def _judge_unread(self, replies: Sequence[Trial], num_unread: int) -> str:
        """Return how serious it is that this number of replies cannot be read."""
        is_cut_here = self.is_own_limit and any(reply.is_cut for reply in replies)
        if 2 * num_unread > len(replies) and not is_cut_here:
            return "failed"
        return "warning"

    def _compare_letters(
        self,
        replies: Sequence[Trial],
        right: int,
        seen: str,
    ) -> Finding:
        """Return the finding about replies that can all be read."""
        check = "one letter"
        if right < FEWEST_RIGHT and not self.is_own:
            return report("warning", f"{check}: wrong", seen)
        longer = sum(not _BARE_LETTER.fullmatch(reply.text) for reply in replies)
        if longer:
            seen += f"; {longer} of them are more than a letter"
            return report("note" if self.is_own else "warning", f"{check}: longer", seen)
        return report("good", check, seen)

    def check_thoughts(self, replies: Sequence[Trial]) -> Finding:
        """Check whether the model thinks, where, and whether the limit cuts its thoughts."""
        cut = sum(reply.is_cut for reply in replies)
        if cut:
            ended = f"{cut} of {len(replies)} replies within the thoughts"
            seen = f"the limit of {self.limit} tokens ends {ended}"
            if self.is_own_limit:
                return report("warning", "thinking: cut here", seen)
            return report("failed", "thinking: cut", seen)
        thinking = [reply.completion for reply in replies if reply.thinks]
        if not thinking:
            return report("good", "thinking", "the model does not think before it answers")
        where = "in the text"
        most = 0
        for completion in thinking:
            most = max(most, completion.completion_tokens or 0)
            if completion.raw is not None:
                where = "in the text, as `<think>` or the like, and taken out of it"
            elif completion.reasoning and where == "in the text":
                where = "apart from the text"
        seen = f"thoughts are {where}; most tokens of a reply with them: {most}"
        return report("good", "thinking", seen)

    async def check_template(self, replies: Sequence[Trial]) -> Finding:
        """Check whether the model answers an instruction and stops, or continues it like a text."""
        check = "chat template"
        instruction = [{"role": "user", "content": TEXTS["instruction"]}]
        answer = await self.ask(instruction, self.few)
        for reply in (answer, *replies):
            match = _TURN.search(reply.text)
            if match:
                seen = f"a reply holds {match[0]!r}, a token of a template"
                return report("warning", f"{check}: token", seen)
        if not answer.text:
            return report("note", check, f"not seen: {answer.why}")
        if re.sub(r"\W", "", answer.text).casefold() == "ready":
            return report("good", check, "an instruction is answered, and the reply ends")
        seen = f"asked to write `ready`, the model writes {shorten(answer.text, _SHOWN)!r}"
        is_longer = answer.completion.finish_reason == "length"
        if is_longer or self.connection.api.identity == "completions":
            return report("warning", f"{check}: none", f"{seen}: no chat template is applied")
        return report("note", check, seen)

    async def check_logprobs(self) -> Finding:
        """Check whether log-probabilities come, and for how many tokens at each position."""
        check = "log-probabilities"
        reply = await self.ask(
            self.prompts[0],
            self.few,
            logprobs=True,
            top_logprobs=ALTERNATIVES,
        )
        positions = read_positions(reply.completion.logprobs)
        most = max((len(position.top) for position in positions), default=0)
        if most >= FEWEST_ALTERNATIVES:
            return report("good", check, f"of the {most} likeliest tokens at each place")
        status = "warning"
        name = f"{check}: none"
        seen = "asked for, and none came"
        if most:
            name = f"{check}: few"
            seen = f"of the {most} likeliest tokens"
        elif not reply.is_answered:
            status = "note"
            seen = f"none: {reply.why}"
        if any(getattr(step.scorer, "reads_logprobs", False) for step in self.task.scoring):
            status = "failed"
        return report(status, name, seen)

    async def check_repeats(self) -> Finding:
        """Check whether the same question gets the same reply at temperature 0."""
        prompt = [{"role": "user", "content": TEXTS["random"]}]
        calls = [self.ask(prompt, self.few, temperature=0.0) for _ in range(REPEATS)]
        replies = await asyncio.gather(*calls)
        for reply in replies:
            if not reply.text:
                return report("note", "repeatable", f"not seen at temperature 0: {reply.why}")
        texts = sorted({reply.text for reply in replies})
        if len(texts) == 1:
            seen = f"temperature 0 gives the same text {REPEATS} times"
            return report("good", "repeatable", seen)
        first, second = (repr(shorten(text, _SHOWN // 2)) for text in texts[:2])
        return report("warning", "repeatable: not", f"temperature 0 gives {first} and {second}")

    def check_price(self) -> Finding:
        """Check whether the cost of a run is known."""
        if self.price is None:
            return report("note", "price: unknown", "not known")
        prompt = 1e6 * self.price.prompt
        completion = 1e6 * self.price.completion
        seen = f"{prompt:.4g} USD a million prompt tokens, {completion:.4g} USD completion tokens"
        return report("good", "price", seen)
