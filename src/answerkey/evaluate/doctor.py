"""`doctor`: a dozen small calls that tell whether an endpoint will give numbers that can be trusted.

    three questions, list of models ──► one small call for each further check ──► findings

No call goes through the cache or the journal, none is retried, and each has a timeout.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from answerkey.errors import AnswerkeyError, SolverError, SpecError, hide_secrets, listing, suggest
from answerkey.evaluate.prepare import Options, Prepared, mcqa, read_options
from answerkey.evaluate.runner import TaskSource, prepare_all, read_plan
from answerkey.evaluate.session import choose_price, require_askable
from answerkey.models.calls import Limits, charge
from answerkey.models.client import encode_body
from answerkey.models.config import Price
from answerkey.models.http import HttpClient, list_models
from answerkey.models.model import LiveModel
from answerkey.models.providers import Connection
from answerkey.models.responses import read_positions
from answerkey.models.retry import (
    CHARACTERS_PER_TOKEN,
    SILENT_KINDS,
    Reply,
    Request,
    Verdict,
    correct_address,
    judge,
)
from answerkey.reader.markup import split_thoughts
from answerkey.scorers import asks_model, find_role
from answerkey.solvers import SingleTurnSolver
from answerkey.solvers.solver import raise_row_errors
from answerkey.text import shorten
from answerkey.types import Completion, Completions, Validity

Status = Literal["good", "note", "warning", "failed"]
Prompt = Sequence[Mapping[str, object]]

#: So long one call may take, and so much (USD) all of them may cost, unless the caller says otherwise.
SECONDS, MAX_COST = 20.0, 0.01
#: Tokens of a reply to a question where the model has no `max_tokens`, the most in any case, and the limit of
#: the other calls to a model that does not think: OpenAI's Responses API takes no smaller one.
USUAL_TOKENS, MOST_TOKENS, FEW_TOKENS = 512, 4096, 16
#: The share of the money that the three questions may cost.
FIRST_SHARE = 0.6
#: How many likely tokens are asked for; the smaller number is what most endpoints allow.
ALTERNATIVES = (20, 5)
#: Any model that sees the built-in questions answers so many of them.
FEWEST_RIGHT = 2
REPEATS = 3
QUESTIONS = [
    {"question": text, "options": options, "answer": answer}
    for text, options, answer in (
        ("Which of these is a colour?", ["seven", "blue", "chair", "Monday"], "B"),
        ("How many legs does a cat have?", ["two", "eight", "six", "four"], "D"),
        ("Which of these is a fruit?", ["iron", "paper", "apple", "thunder"], "C"),
    )
]
READY = "Write the word ready, and nothing else."
RANDOM = "Name a random animal, a random city and a random number from 1 to 1000."
COLOUR = "Which colour is this picture? Answer with one word."
#: A picture of 32 by 32 red points.
PICTURE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAACAAAAAgCAIAAAD8GO2jAAAAJ0lEQVR42u3NsQkAAAjAsP7/tF7hIASy"
    "p6lTCQQCgUAgEAgEgi/BAjLD/C5w/SM9AAAAAElFTkSuQmCC"
)
#: What a chat template puts around a turn; in a reply it means that the end of the turn was not seen.
_TURN = re.compile(
    r"<\|(?:im_start|im_end|eot_id|start_header_id|end_header_id|endoftext|user|assistant)\|>"
    r"|<(?:start|end)_of_turn>|\[/?INST\]|</s>|\n(?:### )?(?:User|Human|Instruction):"
)
_BARE_LETTER = re.compile(r"[\W_]*\w[\W_]*")
_SHOWN, _LONGEST_HEADERS = 60, 4
_LIMIT_HEADER = re.compile(r".*rate-?limit.*|retry-after(-ms)?")


@dataclass(frozen=True)
class Finding:
    """What one check saw, what that means for the numbers, and what to set; no secret is in it."""

    check: str
    status: Status
    seen: str
    means: str = ""
    advice: str = ""

    def __post_init__(self) -> None:
        for name in ("seen", "means", "advice"):
            object.__setattr__(self, name, hide_secrets(getattr(self, name)))


@dataclass(frozen=True)
class Diagnosis:
    """What all checks saw, and what that took; `cost` is in USD, None when the price is not known.

    `is_called` is whether the model gave any answer. `task` is None for the built-in questions.
    """

    model: str
    task: str | None
    findings: Sequence[Finding]
    is_called: bool
    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost: float | None
    seconds: float


@dataclass(frozen=True)
class Said:
    """What came of a call: a completion, or why there is none, with the label of its `Outcome`."""

    completion: Completion | None
    why: str = ""
    label: str = ""

    @property
    def text(self) -> str:
        """The text without white space around it; "" without any."""
        return "" if self.completion is None else (self.completion.text or "").strip()

    @property
    def thinks(self) -> bool:
        """Whether there are thoughts beside the answer, in whichever form."""
        one = self.completion
        return bool(one and (one.reasoning or one.reasoning_tokens or split_thoughts(one.text or "")))

    def is_cut(self, reason: str) -> bool:
        """Return whether the reply ended for this reason before anything but thoughts was said."""
        return self.completion is not None and self.completion.finish_reason == reason and not self.text


def examine(
    model: str,
    task: TaskSource | None = None,
    *,
    seconds: float = SECONDS,
    max_cost: float = MAX_COST,
    **options: Any,  # noqa: ANN401 - as in `Options`
) -> Diagnosis:
    """Call a model a dozen times and return what that tells, for a task or without one; options as for `run`.

    With a task, its first samples are asked, and read by its own scorer. SpecError E119 where there is no
    endpoint to call, or three questions may cost more than `max_cost`.
    """

    def prepare(source: TaskSource | None) -> tuple[Prepared, Options]:
        given = {**options, "model": model, "num_samples": len(QUESTIONS)}
        if source is None:
            given["dataset"] = QUESTIONS
            names = {"question": "question", "options": "options", "truth": "answer"}
            source = mcqa(**{part: f"{{{{ sample.{name} }}}}" for part, name in names.items()})
        chosen = read_options("doctor", given)
        return prepare_all(read_plan(source, chosen)[0].specifications[:1], chosen)[0], chosen

    prepared, chosen = prepare(task)
    called, steps = prepared.model, prepared.task.scoring
    if not isinstance(called, LiveModel):
        message = f"`doctor` calls an endpoint, and `{model}` is none"
        if called is None:
            message = f"`doctor` calls a model, and task `{prepared.key}` calls none"
        raise SpecError("E119", message, hint="name a model as `provider/NAME` or `http://HOST/v1#NAME`")
    require_askable([prepared], chosen)
    # Where continuations are ranked, nothing is said: the built-in questions are asked instead.
    is_asked = isinstance(prepared.task.solver, SingleTurnSolver)
    examination = Examination(
        called.connection,
        prepared if is_asked else prepare(None)[0],
        seconds=seconds,
        price=choose_price(called, chosen),
        max_cost=max_cost,
        has_task=task is not None and is_asked,
        needs_logprobs=not is_asked or any(getattr(one.scorer, "reads_logprobs", False) for one in steps),
    )
    return asyncio.run(examination.run(None if task is None else prepared.key))


class Examination:
    """The calls to one endpoint, and what each check makes of them; `asked` has the questions."""

    def __init__(
        self,
        connection: Connection,
        asked: Prepared,
        *,
        seconds: float,
        price: Price | None,
        max_cost: float,
        has_task: bool,
        needs_logprobs: bool,
    ) -> None:
        self._connection, self._task = connection, asked.task
        self._seconds, self._price, self._max_cost = seconds, price, max_cost
        self._has_task, self._needs_logprobs = has_task, needs_logprobs
        self._samples = asked.dataset.rows.slice(0, len(QUESTIONS)).load(asked.columns)
        built = cast("SingleTurnSolver", asked.task.solver).build_prompts(self._samples, asked.examples)
        raise_row_errors(self._samples, built)
        self._prompts = cast("list[Prompt]", built)
        self._calls, self._prompt_tokens, self._completion_tokens, self._spent = 0, 0, 0, 0.0
        self._headers: dict[str, str] = {}
        self._limit, self._few = self._choose_limit(), FEW_TOKENS

    def _choose_limit(self) -> int:
        """Return how many tokens a reply to a question may have; E119 where the questions cost too much."""
        generation, price = self._connection.generation, self._price
        budget = generation.reasoning_budget or 0  # which every limit leaves room for
        limit = min(generation.max_tokens or budget + USUAL_TOKENS, budget + MOST_TOKENS)
        if price is None:
            return limit
        size = sum(len(encode_body(self._connection.build(one))) for one in self._prompts)
        each = price.completion * len(self._prompts)
        prompts = charge(price, size / CHARACTERS_PER_TOKEN, 0)
        least = prompts + each * min(limit, budget + FEW_TOKENS)
        if least > self._max_cost:
            message = f"three questions to `{self._connection.name}` may cost {least:.4f} USD"
            hint = f"allow more for all calls: `--max-cost {3 * least:.2g}`"
            raise SpecError("E119", f"{message}, more than the limit of {self._max_cost:g}", hint=hint)
        affordable = (FIRST_SHARE * self._max_cost - prompts) / each if each else limit
        return min(limit, max(budget + FEW_TOKENS, int(affordable)))

    async def run(self, task: str | None) -> Diagnosis:
        """Make the calls, those that do not need each other at once, and return what they tell."""
        begun, limits = time.monotonic(), Limits(connect_seconds=min(self._seconds, Limits.connect_seconds))
        self._http = HttpClient(self._connection, limits)
        try:
            models, *said = await asyncio.gather(
                list_models(self._connection, HttpClient(self._connection, limits), seconds=self._seconds),
                *(self._ask(one, self._limit, echo=None) for one in self._prompts),
            )
            findings = self._check_reach(said, models, time.monotonic() - begun)
            is_called = any(one.completion for one in said)
            if is_called:
                if any(one.thinks or one.is_cut("length") for one in said):
                    self._few = self._limit
                findings += [self._check_letters(said), self._check_thoughts(said)]
                findings += await asyncio.gather(
                    self._check_template(said),
                    self._check_stop(said),
                    self._check_logprobs(),
                    self._check_images(),
                    self._check_repeats(),
                )
                findings += [self._check_rates(), self._check_price()]
        finally:
            await self._http.close()
        return Diagnosis(
            self._connection.name,
            task,
            findings,
            is_called,
            self._calls,
            self._prompt_tokens,
            self._completion_tokens,
            None
            if self._price is None
            else charge(self._price, self._prompt_tokens, self._completion_tokens),
            time.monotonic() - begun,
        )

    async def _ask(self, prompt: Prompt, limit: int, **changes: object) -> Said:
        """Return what the model says with other parameters; what it may cost at most is set aside before."""
        api = self._connection.api
        unfit = [name for name, value in changes.items() if value is not None and name in api.unsupported]
        if unfit:
            return Said(None, f"{api.title} does not take {listing(unfit)}")
        own: dict[str, Any] = {} if "max_tokens" in api.unsupported else {"max_tokens": limit}
        generation = replace(self._connection.generation, **own, **changes)
        connection = replace(self._connection, generation=generation)
        try:
            body = encode_body(connection.build(prompt)).encode()
        except SolverError as error:
            return Said(None, error.message)
        most = charge(self._price, len(body) / CHARACTERS_PER_TOKEN, limit)
        if self._price is not None and self._spent + most > self._max_cost:
            return Said(None, f"the call may cost more than is left of {self._max_cost:g} USD (`--max-cost`)")
        self._spent += most
        self._calls += 1
        came = await self._http.send(Request(body), seconds=self._seconds)
        if isinstance(came, Reply):
            found = {name.lower(): connection.hide(value) for name, value in came.headers.items()}
            self._headers |= {name: one for name, one in found.items() if _LIMIT_HEADER.fullmatch(name)}
        outcome = judge(came, connection.read)
        one = outcome.completion
        if one.completion_tokens is not None:  # else what was set aside counts as spent
            self._spent += charge(self._price, one.prompt_tokens, one.completion_tokens) - most
        self._prompt_tokens += one.prompt_tokens or 0
        self._completion_tokens += one.completion_tokens or 0
        if outcome.verdict is Verdict.ANSWERED:
            return Said(one)
        return Said(None, one.error or outcome.label, outcome.label)

    def _check_reach(self, said: Sequence[Said], models: Sequence[str], seconds: float) -> list[Finding]:
        """Say whether the endpoint answers, with the model that is named; where it does not, only why."""
        connection, name = self._connection, str(self._connection.model)
        host = f"`{connection.host}`"
        refused = [one for one in said if one.completion is None]
        near = suggest(name, models) or f"models there: {listing(models, limit=5)}"
        is_listed = any(
            name in (one, one.partition(":")[0]) or name.partition(":")[0] == one for one in models
        )
        if len(refused) < len(said):
            seen = f"{host} answers {len(said) - len(refused)} of {len(said)} questions in {seconds:.1f} s"
            findings = [Finding("reachable", "good", seen)]
            if refused:
                means = "a run would send such calls again"
                findings = [Finding("reachable", "warning", f"{seen}; else: {refused[0].why}", means)]
            if is_listed or not models:
                seen = f"`{name}` answers" + (", and the endpoint lists it" if is_listed else "")
                return [*findings, Finding("model", "good", seen)]
            means = "another model may have answered: some servers answer with the one that is loaded"
            seen = f"`{name}` answers, but the endpoint does not list it"
            return [*findings, Finding("model", "warning", seen, means, near)]
        label, why = refused[0].label, refused[0].why
        address = correct_address(connection.name)
        reached = Finding("reachable", "good", f"{host} replies in {seconds:.1f} s")
        if label in SILENT_KINDS or label in {"", "reset", "too_large"}:
            advice = connection.start_hint or "check the address, and that the server is up"
            if label == "timeout":
                advice = "see whether the model is loaded; `--timeout 120` waits for one that loads or thinks"
            return [Finding("reachable", "failed", why, "a run would stop with no answer at all", advice)]
        if label == "unreadable":
            seen = f"{host} sends a web page: this is not the address of an API" if "HTML" in why else why
            return [Finding("reachable", "failed", seen, "no reply can be read", address)]
        if label in {"status 401", "status 403", "insufficient_quota"}:
            seen = f"{host} {'refuses the key' if connection.has_secret else 'wants a key, and none is sent'}"
            variable = connection.missing_key or "the environment value of the key"
            advice = f"check {variable}; for a URL it is `ANSWERKEY_API_KEY`"
            if label == "insufficient_quota":
                seen, advice = f"{host} has no quota left for the key", "add credit to the account"
            return [reached, Finding("key", "failed", f"{seen}: {why}", "no call is answered", advice)]
        if label in {"model_not_found", "status 404"} or (models and not is_listed):
            seen = f"{host} does not know `{name}`, or has nothing at this address: {why}"
            advice = near if models else address
            return [reached, Finding("model", "failed", seen, "no call is answered", advice)]
        if label == "status 429":
            return [reached, self._check_rates(why)]
        means, advice = (
            "no call is answered",
            "correct what the message names: a parameter, the prompt, the server",
        )
        return [reached, Finding("request", "failed", f"{host} refuses the questions: {why}", means, advice)]

    def _check_letters(self, said: Sequence[Said]) -> Finding:
        """Say whether replies to the questions can be read, by the scorer that a run would use."""
        check, scorer = "one letter", self._task.main_step.scorer
        places = [place for place, one in enumerate(said) if one.completion is not None]
        completions = [one.completion for one in said if one.completion is not None]
        count, who = len(completions), f"`{getattr(scorer, 'rule_name', scorer.type)}`"
        shown = next((one for one in said if one.completion), said[0])
        example = f"for example {shorten(shown.text, _SHOWN)!r}"
        if asks_model(scorer) and find_role(scorer) == "judge":
            return Finding(check, "note", f"not read: a model judges the replies; {example}")
        samples = self._samples.take(places)
        try:
            scores = scorer.score(samples, Completions.build(samples.ids, completions, source="live"))
        except AnswerkeyError as error:
            return Finding(check, "failed", f"{who} cannot score the replies: {error.message}")
        validity, reasons = scores.column("completion_validity"), scores.column("validity_reason")
        correct = scores.column("is_correct")
        right = 0 if correct is None else int(correct.fill_null(0).sum())
        if validity is None or reasons is None:
            return Finding(check, "note", f"{who} finds {right} of {count} right; {example}")
        unread = Counter(reasons.filter(validity == Validity.INVALID.value).drop_nulls().to_list())
        if unread:
            (reason, _), number = unread.most_common(1)[0], unread.total()
            means = "such replies count as INVALID: the accuracy would say nothing about knowledge"
            seen = f"{who} cannot read {number} of {count} replies ({reason}); {example}"
            is_ours = self._is_own_limit and all(one.is_cut("length") for one in said if not one.text)
            status: Status = "failed" if 2 * number > count and not is_ours else "warning"
            if reason == "TRUNCATED_THINKING":
                advice = "see `thinking` and `stop words`"
            elif reason in {"EMPTY", "NO_TEXT", "REFUSED"}:
                advice = "look at the server's log: nothing was generated, or it was withheld"
            elif who != "`stated_answer`":
                advice = "read replies with `extraction: stated_answer`, or ask for the letter alone"
            else:
                advice = "ask for the letter alone (`answerkey run --dry-run` shows the prompt)"
            return Finding(check, status, seen, means, advice)
        bare = sum(bool(_BARE_LETTER.fullmatch(one.text)) for one in said if one.completion)
        seen = f"{who} reads {count} of {count} replies, {right} of them right; {example}"
        if right < FEWEST_RIGHT and not self._has_task:
            means = "the questions are easy: the model may not see them, or not as its chat template has them"
            return Finding(check, "warning", seen, means, "look at `chat template`")
        if bare < count:
            means = (
                "rules that read the first character, and label probabilities, get nothing from such replies"
            )
            seen += f"; {count - bare} are more than a letter"
            status = "note" if self._has_task else "warning"
            return Finding(check, status, seen, means, "use `extraction: stated_answer`")
        return Finding(check, "good", seen)

    @property
    def _is_own_limit(self) -> bool:
        """Whether the limit of tokens is ours: a run would have none, or a larger one."""
        return self._connection.generation.max_tokens != self._limit

    def _check_thoughts(self, said: Sequence[Said]) -> Finding:
        """Say whether the model thinks, where the thoughts go, and whether the limit cuts them."""
        check, thinking = "thinking", [one for one in said if one.thinks or one.is_cut("length")]
        if not thinking:
            return Finding(check, "good", "the model does not think before it answers")
        found = [one.completion for one in thinking if one.completion is not None]
        where = "are counted, and not shown"
        if any(one.raw is not None for one in found):
            where = "come in the text, between tokens such as `<think>`, and are taken out"
        elif any(one.reasoning for one in found):
            where = "come apart from the text"
        elif self._connection.generation.thinking == "keep":
            where = "stay in the text (`thinking: keep`)"
        used = max((one.completion_tokens or 0 for one in found), default=0)
        seen = f"thoughts {where}; up to {used} tokens for a reply"
        cut = sum(one.is_cut("length") for one in thinking)
        if not cut:
            return Finding(check, "good", seen, advice="leave room for longer thoughts: `max_tokens`")
        seen = f"the limit of {self._limit} tokens cuts {cut} of {len(said)} replies within the thoughts"
        if self._is_own_limit:
            means = f"whether they end was not tried: `doctor` gives a reply {self._limit} tokens here"
            more = f"`?max_tokens={4 * self._limit}` behind the name"
            return Finding(check, "warning", seen, means, f"try {more}, and `--timeout`, `--max-cost` for it")
        means = "a reply without an answer is INVALID (`TRUNCATED_THINKING`), whatever the model knows"
        return Finding(check, "failed", seen, means, f"raise `max_tokens` above {self._limit}")

    async def _check_template(self, said: Sequence[Said]) -> Finding:
        """Say whether the model answers an instruction and ends, or continues it as any text."""
        check, one = (
            "chat template",
            await self._ask([{"role": "user", "content": READY}], self._few, echo=None),
        )
        marked = [found[0].strip() for each in (one, *said) if (found := _TURN.search(each.text))]
        is_text = getattr(self._connection.api, "name", "") == "completions"
        if marked:
            means = "the end of a turn is not seen: replies run on, and may be read wrongly"
            seen = f"a reply holds {marked[0]!r}, a token of a chat template"
            return Finding(check, "warning", seen, means, "correct the server's chat template or stop tokens")
        if one.completion is None:
            return Finding(check, "note", f"not seen: {one.why}")
        if re.sub(r"\W", "", one.text).casefold() == "ready":
            return Finding(check, "good", "an instruction is answered, and the reply ends")
        seen = f"told to write `ready`, the model writes {shorten(one.text, _SHOWN)!r}"
        if is_text or one.completion.finish_reason == "length":
            means = "the prompt is continued like any text: a chat model without its template knows less"
            advice = (
                "for a chat model use the chat API: leave `api=completions` out"
                if is_text
                else ("see that the server applies the model's chat template")
            )
            return Finding(check, "warning", seen, means, advice)
        return Finding(check, "note", seen)

    async def _check_stop(self, said: Sequence[Said]) -> Finding:
        """Say whether a stop word ends the reply within the thoughts."""
        check, own = "stop words", self._connection.generation.stop
        if not any(one.thinks for one in said):
            return Finding(check, "good", "the model has no thoughts that one could cut")
        seen = [one for one in said if own and one.is_cut("stop")]
        if not own:
            one = await self._ask(self._prompts[0], self._limit, stop=("\n",))
            if one.completion is None:
                return Finding(check, "note", f"not seen: {one.why}")
            seen = [one] if one.is_cut("stop") else []
        if not seen:
            return Finding(check, "good", "a stop word does not end the thoughts")
        means = "a reply that a stop word cuts there has no answer, and is INVALID"
        if not own:
            return Finding(
                check, "note", "a stop word ends the reply within the thoughts", means, "set no `stop`"
            )
        stop = listing(map(repr, own))
        return Finding(
            check, "failed", f"{stop} ends {len(seen)} replies within the thoughts", means, "leave `stop` out"
        )

    async def _check_logprobs(self) -> Finding:
        """Say whether log-probabilities come, and of how many tokens for each place."""
        check, echo = "log-probabilities", self._connection.generation.echo
        wanted = {"logprobs": True, "echo": echo}
        tried = await asyncio.gather(
            *(self._ask(self._prompts[0], self._few, top_logprobs=most, **wanted) for most in ALTERNATIVES)
        )
        answered = [one.completion for one in tried if one.completion is not None]
        places = [place for one in answered for place in read_positions(one.logprobs)]
        means = "`choice_probabilities` and `choice_ranking_solver` cannot be used"
        status: Status = "failed" if self._needs_logprobs else "note"
        if not answered:
            return Finding(check, status, f"none: {tried[-1].why}", means)
        if not places:
            status = status if self._needs_logprobs else "warning"
            return Finding(check, status, "none came, though they were asked for: they are dropped", means)
        most = max(len(place.top) for place in places)
        seen = f"of up to {most} tokens for each place" + (", also of the prompt" if echo else "")
        if most < len(QUESTIONS[0]["options"]):
            means = "a choice that is not among them has no probability"
            return Finding(check, "failed" if self._needs_logprobs else "warning", seen, means)
        return Finding(check, "good", seen, advice=f"`top_logprobs` up to {most}")

    async def _check_images(self) -> Finding:
        """Say whether the model sees a picture."""
        check = "images"
        parts = [{"type": "text", "text": COLOUR}, {"type": "image_url", "image_url": {"url": PICTURE}}]
        one = await self._ask([{"role": "user", "content": parts}], self._few, echo=None)
        if one.completion is None:
            return Finding(check, "note", f"none: {one.why}", "questions with images cannot be asked")
        if re.search(r"\bred\b", one.text, re.IGNORECASE):
            return Finding(check, "good", "the model sees a red picture as red")
        seen = f"a red picture is taken, and called {shorten(one.text, _SHOWN)!r}"
        return Finding(check, "warning", seen, "questions with images would be answered blindly")

    async def _check_repeats(self) -> Finding:
        """Say whether the same question gets the same reply at temperature 0."""
        check, prompt = "repeatable", [{"role": "user", "content": RANDOM}]
        tried = await asyncio.gather(
            *(self._ask(prompt, self._few, temperature=0.0, echo=None) for _ in range(REPEATS))
        )
        texts = [one.text for one in tried if one.text]
        if len(texts) < len(tried):
            why = next((one.why for one in tried if one.why), "no text came")
            return Finding(check, "note", f"not seen at temperature 0: {why}")
        if len(set(texts)) == 1:
            return Finding(check, "good", f"temperature 0 gives the same text {len(texts)} times")
        first, other = texts[0], next(one for one in texts if one != texts[0])
        seen = f"temperature 0 gives {shorten(first, 30)!r} and {shorten(other, 30)!r}"
        means = "a second run has other numbers, by chance"
        return Finding(check, "warning", seen, means, "set `seed`, or measure it: `trials`, `repeatability`")

    def _check_rates(self, why: str = "") -> Finding:
        """Say which limits the headers state, and why calls were refused by them."""
        headers = [f"{name}: {value}" for name, value in sorted(self._headers.items())]
        stated = ", ".join(headers[:_LONGEST_HEADERS]) or "the headers state none"
        advice = "`rate_limit` and `tokens_per_minute` of the model file keep below them"
        if why:
            means = "a run would wait and send again, up to 10 minutes for a call"
            return Finding("rate limits", "failed", f"refused at once: {why} ({stated})", means, advice)
        if not headers:
            return Finding("rate limits", "note", stated, "a run finds out how many calls at once are taken")
        return Finding("rate limits", "good", stated, advice=advice)

    def _check_price(self) -> Finding:
        """Say whether it is known what a run costs."""
        if self._price is None:
            means, advice = "`--max-cost` cannot hold, and no cost is shown", "state it: `--price IN:OUT`"
            return Finding("price", "note", "not known", means, advice)
        prompt, completion = (1e6 * one for one in (self._price.prompt, self._price.completion))
        return Finding(
            "price", "good", f"{prompt:.4g} USD and {completion:.4g} USD per million tokens, in and out"
        )
