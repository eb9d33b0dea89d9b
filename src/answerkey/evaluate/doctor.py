"""`doctor`: a dozen small calls that tell whether an endpoint will give numbers that can be
trusted.

    three questions, list of models ──► a small call or two for each further check ──► findings

No call goes through the cache or the journal, none is retried, and each has a timeout.
`doctor.toml` has what is asked, what each finding means for the numbers, and what to do.
"""

from __future__ import annotations

import asyncio
import re
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any, cast

from answerkey.errors import SolverError, SpecError, hide_secrets, listing, suggest
from answerkey.evaluate.job import Job, open_jobs
from answerkey.evaluate.options import read_options
from answerkey.evaluate.run import TaskSource, read_plan
from answerkey.evaluate.session import choose_price, require_callable
from answerkey.evaluate.tasks import mcqa
from answerkey.models.calls import Limits, charge
from answerkey.models.client import encode_body
from answerkey.models.config import Price
from answerkey.models.endpoint import CHARACTERS_PER_TOKEN
from answerkey.models.http import HttpClient, list_models
from answerkey.models.images import resolve_images
from answerkey.models.logprobs import read_positions
from answerkey.models.model import LiveModel, calls_endpoint
from answerkey.models.responses import fail
from answerkey.models.retry import (
    Health,
    Outcome,
    Reply,
    Request,
    Verdict,
    judge,
)
from answerkey.reader.markup import split_thoughts
from answerkey.scorers import asks_model, find_role
from answerkey.solvers import SingleTurnSolver
from answerkey.solvers.solver import raise_row_errors
from answerkey.text import shorten
from answerkey.types import Completions, Score, Validity

Prompt = Sequence[Mapping[str, object]]
Finding = dict[str, str]

#: Tokens of a reply to a question where the model has no `max_tokens`, the most in any case, and
#: the limit of the other calls to a model that does not think: OpenAI's Responses API takes no
#: smaller one.
USUAL_TOKENS, MOST_TOKENS, FEW_TOKENS = 512, 4096, 16
#: The share of the money that the reply to one question may cost.
ONE_SHARE = 0.2
#: How many likely tokens are asked for, the smaller number being what most endpoints allow; and how
#: many there must be, or the letters of a question are not all among them.
ALTERNATIVES, FEWEST_ALTERNATIVES = (20, 5), 4
#: Any model that sees the built-in questions has so many of them right.
FEWEST_RIGHT = 2
REPEATS = 3
NEW_LINE = ("\n",)
#: What is asked, and what findings mean.
TEXTS = tomllib.loads((files("answerkey.evaluate") / "doctor.toml").read_text(encoding="utf-8"))
QUESTIONS = TEXTS["questions"]
#: What a chat template puts around a turn; in a reply it means that the end of the turn was not
#: seen.
_TURN = re.compile(
    r"<\|(im_(start|end)|eot_id|(start|end)_header_id)\|>|<(start|end)_of_turn>|\[/?INST\]"
)
_BARE_LETTER = re.compile(r"[\W_]*\w[\W_]*")
_LIMIT_HEADER = re.compile(r"(?!.*reset).*rate-?limit.*|retry-after(-ms)?", re.IGNORECASE)
_SHOWN = 60
#: Which finding is told for replies that cannot be read for a reason.
_UNREAD = {
    "TRUNCATED_THINKING": "thoughts",
    "EMPTY": "empty",
    "NO_TEXT": "empty",
    "REFUSED": "empty",
}


def tell(status: str, name: str, seen: str, advice: str = "") -> Finding:
    """Return a finding: its check and status, what was seen, what that means and what to do.

    No secrets.
    """
    means, usual = TEXTS["findings"].get(name, ("", ""))
    seen, advice = hide_secrets(seen), hide_secrets(advice or usual)
    return {
        "check": name.partition(":")[0],
        "status": status,
        "seen": seen,
        "means": means,
        "advice": advice,
    }


class Trial(Outcome):
    """What came of a call."""

    @property
    def is_answered(self) -> bool:
        """Whether there is a reply, with or without text."""
        return self.verdict is Verdict.ANSWERED

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

    def is_cut(self, reason: str) -> bool:
        """Return whether the reply ended for this reason before anything but thoughts came."""
        return self.completion.finish_reason == reason and not self.text


def _list_invalid(scores: Sequence[Score]) -> list[str]:
    """Return why replies cannot be read, one reason for each that cannot."""
    reasons = []
    for score in scores:
        if score.metadata.get("completion_validity") == Validity.INVALID.value:
            reasons.append(str(score.metadata["validity_reason"]))
    return reasons


def examine(
    model: str, task: TaskSource | None, seconds: float, max_cost: float, **options: object
) -> dict[str, Any]:
    """Call a model a dozen times and return what that tells, as `--json` prints it.

    Options as for `run`. A call may take so many seconds, and all together may cost so many USD.
    With a task, its first samples are asked, and read by its own scorer; without one, built-in
    questions are.
    """
    source, given = task, {**options, "model": model, "num_samples": len(QUESTIONS)}
    if source is None:
        names = {"question": "question", "options": "options", "truth": "answer"}
        source = mcqa(**{part: f"{{{{ sample.{name} }}}}" for part, name in names.items()})
        given["dataset"] = QUESTIONS
    chosen = read_options("doctor", given)
    job = open_jobs(read_plan(source, chosen)[0].specifications[:1], chosen)[0]
    called = job.model
    solver = job.task.solver
    if not calls_endpoint(called) or solver is None or not solver.sends_prompts:
        message = f"`doctor` asks an endpoint: `{model}` is none, or the task asks nothing"
        raise SpecError(
            "E119", message, hint="name a model as `provider/NAME` or `http://HOST/v1#NAME`"
        )
    require_callable([job], chosen)
    price, begun = choose_price(called, chosen), time.monotonic()
    examination = Examination(job, price, seconds, max_cost)
    examination.is_own = task is not None
    checks = asyncio.run(examination.run())
    prompt_tokens, completion_tokens = examination.tokens
    cost = None
    if price is not None:
        cost = round(charge(price, prompt_tokens, completion_tokens), 6)
    return {
        "model": called.name,
        "task": None if task is None else job.key,
        "good": all(finding["status"] != "failed" for finding in checks),
        "answered": examination.is_answered,
        "checks": checks,
        "calls": examination.calls,
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "cost": cost,
        "seconds": round(time.monotonic() - begun, 3),
    }


class Examination:
    """The calls to one endpoint, and what each check makes of them.

    `is_own` if a task of the user's asks. `limit` is how many tokens a reply to a question may
    have, `few` the same for the other calls.
    """

    def __init__(self, job: Job, price: Price | None, seconds: float, max_cost: float) -> None:
        self.task, self.price, self.seconds, self.max_cost = job.task, price, seconds, max_cost
        self.connection = cast("LiveModel", job.model).connection
        self.samples = job.dataset.rows.slice(0, len(QUESTIONS)).load()
        solver = cast("SingleTurnSolver", job.task.solver)
        self.prompts = cast("list[Prompt]", solver.build_prompts(self.samples, job.examples))
        raise_row_errors(self.samples, self.prompts)
        self.calls, self.tokens, self.spent = 0, (0, 0), 0.0
        self.is_own, self.is_answered, self.headers = True, False, dict[str, str]()
        self.generation = self.connection.generation
        self.few = FEW_TOKENS
        self.limit = min(self.generation.max_tokens or USUAL_TOKENS, MOST_TOKENS)
        if price is not None and price.completion:
            self.limit = min(
                self.limit, max(self.few, int(ONE_SHARE * max_cost / price.completion))
            )
        self.is_own_limit = (
            self.generation.max_tokens != self.limit
        )  # a run has none, or a larger one

    async def run(self) -> list[Finding]:
        """Make the calls, those that do not need each other at once, and return what they tell."""
        begun, limits = (
            time.monotonic(),
            Limits(connect_seconds=min(self.seconds, Limits.connect_seconds)),
        )
        self.http = HttpClient(self.connection, limits)
        try:
            listed = asyncio.ensure_future(
                list_models(self.connection, self.http, seconds=self.seconds)
            )
            replies = await asyncio.gather(
                *(self.ask(prompt, self.limit) for prompt in self.prompts)
            )
            findings = self.check_reach(replies, await listed, time.monotonic() - begun)
            self.is_answered = any(reply.is_answered for reply in replies)
            if not self.is_answered:
                return findings
            if any(reply.thinks or reply.is_cut("length") for reply in replies):
                self.few = self.limit
            calls = (self.check_logprobs(), self.check_images(), self.check_repeats())
            findings += [self.check_letters(replies), self.check_thoughts(replies)]
            findings += await asyncio.gather(
                self.check_template(replies), self.check_stop(replies), *calls
            )
            return [*findings, self.check_rates(), self.check_price()]
        finally:
            await self.http.close()

    async def ask(self, prompt: Prompt, limit: int, **changes: object) -> Trial:
        """Return what the model says with other parameters.

        What it may cost at most is set aside before.
        """
        api, price = self.connection.api, self.price
        if unfit := api.unsupported.intersection(changes):
            return Trial(
                Verdict.FAILED, fail(f"{api.title} does not take {listing(sorted(unfit))}")
            )
        generation: dict[str, Any] = {"echo": None, **changes}
        if "max_tokens" not in api.unsupported:
            generation["max_tokens"] = limit
        connection = replace(self.connection, generation=replace(self.generation, **generation))
        try:
            body = encode_body(connection.build(prompt)).encode()
        except SolverError as error:
            return Trial(Verdict.FAILED, fail(error.message))
        most = charge(price, len(body) / CHARACTERS_PER_TOKEN, limit)
        if price is not None and self.spent + most > self.max_cost:
            why = f"a call may cost {most:.4f} USD, more than is left of {self.max_cost:g}"
            return Trial(Verdict.FAILED, fail(why), "cost")
        self.spent += most
        self.calls += 1
        came = await self.http.send(Request(body), seconds=self.seconds)
        for name, value in came.headers.items() if isinstance(came, Reply) else ():
            if _LIMIT_HEADER.fullmatch(name):
                self.headers[name.lower()] = connection.hide(value)
        outcome = Trial(*judge(came, connection.read))
        prompt_tokens = outcome.completion.prompt_tokens
        completion_tokens = outcome.completion.completion_tokens
        if completion_tokens is not None:  # else what was set aside counts as spent
            self.spent += charge(price, prompt_tokens, completion_tokens) - most
        self.tokens = (
            self.tokens[0] + (prompt_tokens or 0),
            self.tokens[1] + (completion_tokens or 0),
        )
        return outcome

    def check_reach(
        self, replies: Sequence[Trial], models: Sequence[str], seconds: float
    ) -> list[Finding]:
        """Say whether the endpoint answers, and with the model that is named; if not, why."""
        connection, name = self.connection, self.connection.model or self.connection.name
        refused = [reply for reply in replies if not reply.is_answered]
        near = suggest(name, models) or f"models there: {listing(models, limit=5)}"
        reached = tell("good", "reachable", f"`{connection.host}` replies within {seconds:.1f} s")
        if len(refused) < len(replies):
            if refused:
                seen = f"{len(refused)} of {len(replies)} questions: {refused[0].why}"
                reached = tell("warning", "reachable: some", seen)
            if not models or any(
                name.partition(":")[0] == model.partition(":")[0] for model in models
            ):
                return [reached, tell("good", "model", f"`{name}` answers")]
            seen = f"`{name}` answers, and the endpoint does not list it"
            return [reached, tell("warning", "model: not listed", seen, near)]
        label, why = refused[0].label, refused[0].why
        if label == "cost":
            return [tell("failed", "price: too high", why)]
        if label == "status 429":
            return [reached, self.check_rates(why)]
        health = Health(connection)
        for reply in replies:
            failure = health.note(reply, is_final=True)  # in the words of a run that stops
        if failure is None or label == "timeout":
            late = tell("failed", "reachable: late", why)
            return [late] if failure else [reached, tell("failed", "request: refused", why)]
        advice = (failure.hint or "").partition(";")[0].removesuffix(", and start a new run")
        if failure.code == "E304":
            return [reached, tell("failed", "key: refused", failure.message, advice)]
        if label in {"model_not_found", "status 404"}:
            return [
                reached,
                tell("failed", "model: unknown", failure.message, near if models else advice),
            ]
        return [tell("failed", "reachable: not", failure.message, advice)]

    def check_letters(self, replies: Sequence[Trial]) -> Finding:
        """Say whether replies to the questions can be read, by the scorer that a run would use."""
        check, scorer = "one letter", self.task.main_step.scorer
        places = [place for place, reply in enumerate(replies) if reply.is_answered]
        replies = [replies[place] for place in places]
        texts = [reply.text for reply in replies if reply.text]
        example = f"; for example {shorten(texts[0], _SHOWN)!r}" if texts else ""
        if asks_model(scorer) and find_role(scorer) == "judge":
            return tell("note", check, f"a model judges the replies: not tried{example}")
        samples = self.samples.take(places)
        completions = [reply.completion for reply in replies]
        scores = scorer.score(samples, Completions.build(samples.ids, completions, source="live"))
        right = sum(score.values.get("is_correct") == 1 for score in scores)
        rule, count = getattr(scorer, "rule_name", scorer.type), len(replies)
        if "completion_validity" not in (scorer.metadata_types or ()):
            return tell("note", check, f"scorer `{rule}`: {right} of {count} right{example}")
        reasons = _list_invalid(scores)
        if reasons:
            most = max(reasons, key=reasons.count)
            seen = f"`{rule}` cannot read {len(reasons)} of {count} replies ({most}){example}"
            return self._tell_unread(replies, reasons, seen)
        seen = f"`{rule}` reads {count} of {count} replies, {right} right{example}"
        if right < FEWEST_RIGHT and not self.is_own:
            return tell("warning", f"{check}: wrong", seen)
        longer = sum(not _BARE_LETTER.fullmatch(reply.text) for reply in replies)
        if longer:
            seen += f"; {longer} of them are more than a letter"
            return tell("note" if self.is_own else "warning", f"{check}: longer", seen)
        return tell("good", check, seen)

    def _tell_unread(self, replies: Sequence[Trial], reasons: Sequence[str], seen: str) -> Finding:
        """Return the finding about replies that the scorer cannot read, for these reasons."""
        most = max(reasons, key=reasons.count)
        kind = _UNREAD.get(most, "unread")
        is_cut_here = self.is_own_limit and any(reply.is_cut("length") for reply in replies)
        is_failed = 2 * len(reasons) > len(replies) and not is_cut_here
        return tell("failed" if is_failed else "warning", f"one letter: {kind}", seen)

    def check_thoughts(self, replies: Sequence[Trial]) -> Finding:
        """Say whether the model thinks, where the thoughts go, and whether the limit cuts them."""
        if cut := sum(reply.is_cut("length") for reply in replies):
            seen = (
                f"the limit of {self.limit} tokens ends {cut} of {len(replies)} replies within "
                "the thoughts"
            )
            how = (
                ("warning", "thinking: cut here")
                if self.is_own_limit
                else ("failed", "thinking: cut")
            )
            return tell(*how, seen)
        thinking = [reply.completion for reply in replies if reply.thinks]
        if not thinking:
            return tell("good", "thinking", "the model does not think before it answers")
        where = "in the text" if self.generation.thinking == "keep" else "counted, not shown"
        where = "apart from the text" if any(reply.reasoning for reply in thinking) else where
        if any(reply.raw is not None for reply in thinking):
            where = "in the text, as `<think>` or the like, and taken out of it"
        used = max(reply.completion_tokens or 0 for reply in thinking)
        return tell(
            "good", "thinking", f"thoughts are {where}; most tokens of a reply with them: {used}"
        )

    async def check_template(self, replies: Sequence[Trial]) -> Finding:
        """Say whether the model answers an instruction and ends, or continues it like any text."""
        check = "chat template"
        instruction = [{"role": "user", "content": TEXTS["instruction"]}]
        answer = await self.ask(instruction, self.few)
        for reply in (answer, *replies):
            match = _TURN.search(reply.text)
            if match:
                seen = f"a reply holds {match[0]!r}, a token of a template"
                return tell("warning", f"{check}: token", seen)
        if not answer.text:
            return tell("note", check, f"not seen: {answer.why}")
        if re.sub(r"\W", "", answer.text).casefold() == "ready":
            return tell("good", check, "an instruction is answered, and the reply ends")
        seen = f"failure to write `ready`, the model writes {shorten(answer.text, _SHOWN)!r}"
        is_longer = answer.completion.finish_reason == "length"
        if is_longer or self.connection.api.identity == "completions":
            return tell("warning", f"{check}: none", f"{seen}: no chat template is applied")
        return tell("note", check, seen)

    async def check_stop(self, replies: Sequence[Trial]) -> Finding:
        """Say whether a stop word ends the reply within the thoughts."""
        check, own = "stop words", self.generation.stop
        if not any(reply.thinks for reply in replies):
            return tell("good", check, "there are no thoughts that one could cut")
        tried = replies if own else [await self.ask(self.prompts[0], self.limit, stop=NEW_LINE)]
        if not any(reply.is_answered for reply in tried):
            return tell("note", check, f"not seen: {tried[0].why}")
        if not any(reply.is_cut("stop") for reply in tried):
            return tell("good", check, "a stop word does not end the thoughts")
        seen = (
            f"a stop word ({listing(map(repr, own or NEW_LINE))}) ends the reply within the "
            "thoughts"
        )
        return tell("failed" if own else "note", f"{check}: cut", seen)

    async def check_logprobs(self) -> Finding:
        """Say whether log-probabilities come, and of how many tokens for each place."""
        check, scorers = "log-probabilities", [step.scorer for step in self.task.scoring]
        is_needed = any(getattr(scorer, "reads_logprobs", False) for scorer in scorers)
        calls = (
            self.ask(self.prompts[0], self.few, logprobs=True, top_logprobs=count)
            for count in ALTERNATIVES
        )
        tried = await asyncio.gather(*calls)
        findings = [place for reply in tried for place in read_positions(reply.completion.logprobs)]
        most = max((len(place.top) for place in findings), default=0)
        if most >= FEWEST_ALTERNATIVES:
            return tell("good", check, f"of the {most} likeliest tokens at each place")
        status, seen = (
            "warning",
            f"of the {most} likeliest tokens" if most else "asked for, and none came",
        )
        if not any(reply.is_answered for reply in tried):
            status, seen = "note", f"none: {tried[-1].why}"
        return tell(
            "failed" if is_needed else status, f"{check}: {'few' if most else 'none'}", seen
        )

    async def check_images(self) -> Finding:
        """Say whether the model sees a picture."""
        parts = [
            {"type": "text", "text": TEXTS["colour"]},
            {"type": "image_url", "image_url": {"url": TEXTS["picture"]}},
        ]
        if not self.connection.api.images:
            return tell("note", "images", f"none: {self.connection.api.title} takes none")
        reply = await self.ask(resolve_images([{"role": "user", "content": parts}], ()), self.few)
        if not reply.text:
            return tell("note", "images", f"none: {reply.why}")
        if re.search(r"\bred\b", reply.text, re.IGNORECASE):
            return tell("good", "images", "a red picture is seen as red")
        return tell(
            "warning",
            "images: not seen",
            f"a red picture is called {shorten(reply.text, _SHOWN)!r}",
        )

    async def check_repeats(self) -> Finding:
        """Say whether the same question gets the same reply at temperature 0."""
        prompt = [{"role": "user", "content": TEXTS["random"]}]
        calls = [self.ask(prompt, self.few, temperature=0.0) for _ in range(REPEATS)]
        tried = await asyncio.gather(*calls)
        for reply in tried:
            if not reply.text:
                return tell("note", "repeatable", f"not seen at temperature 0: {reply.why}")
        texts = sorted({reply.text for reply in tried})
        if len(texts) == 1:
            return tell(
                "good", "repeatable", f"temperature 0 gives the same text {len(tried)} times"
            )
        first, second = (repr(shorten(text, _SHOWN // 2)) for text in texts[:2])
        return tell("warning", "repeatable: not", f"temperature 0 gives {first} and {second}")

    def check_rates(self, why: str = "") -> Finding:
        """Say which limits the headers state, and why calls were refused by them."""
        limits = ", ".join(f"{name}: {value}" for name, value in sorted(self.headers.items()))
        if why:
            seen = f"{why} ({limits or 'no header says more'})"
            return tell("failed", "rate limits: refused", seen)
        if limits:
            return tell("good", "rate limits", limits)
        return tell("note", "rate limits", "no header states one")

    def check_price(self) -> Finding:
        """Say whether it is known what a run costs."""
        if self.price is None:
            return tell("note", "price: unknown", "not known")
        prompt, completion = 1e6 * self.price.prompt, 1e6 * self.price.completion
        seen = f"{prompt:.4g} USD a million prompt tokens, {completion:.4g} USD completion tokens"
        return tell("good", "price", seen)
