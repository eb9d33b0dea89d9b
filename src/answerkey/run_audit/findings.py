"""What an audit says of a run, as plain values, and what stands out in it.

Every summary shows the short form: nothing here reads a completion, a task or a template.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import polars as pl

from answerkey.metrics import wilson
from answerkey.metrics.task_counts import (
    correct_for_chance,
    measure_chance,
    measure_kappa,
    measure_recalls,
    measure_rstd,
)
from answerkey.text import format_part, format_short_percent
from answerkey.types import RULE_NAMES, CompletionStatus, MetricValue, Validity


@dataclass(frozen=True)
class Finding:
    """One thing to know: a sentence with its numbers, what to do about it, and some samples that
    show it.

    `kind` is its name in `--json`; the reference page of audits lists them.
    """

    kind: str
    sentence: str
    step: str
    numbers: Mapping[str, float | int | str] = field(default_factory=dict)
    examples: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReaderCounts:
    """What one rule or lens reads in the `n` completions; `own` is what the run itself read.

    `gains` are right by this reading and not by the run's, `losses` the other way round, `changes`
    all that are read otherwise. `gained` and `lost` are the first samples of each. Completions of
    the same sample are not independent: where there are fewer `samples` than completions there is
    no interval.
    """

    name: str
    kind: Literal["own", "rule", "lens"]
    n: int
    correct: int
    invalid: int
    samples: int
    changes: int = 0
    gains: int = 0
    losses: int = 0
    gained: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    @property
    def accuracy(self) -> float | None:
        """The share of right answers; None without any completion."""
        return self.correct / self.n if self.n else None

    @property
    def read(self) -> int:
        """In how many completions a choice is read."""
        return self.n - self.invalid

    @property
    def reads_half(self) -> bool:
        """Whether it reads at least half of the completions: no finding rests on one that does
        not.
        """
        return 2 * self.read >= self.n

    @property
    def invalid_share(self) -> float | None:
        """The share of completions in which no choice is read."""
        return self.invalid / self.n if self.n else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % Wilson interval of the accuracy; None where completions are not independent."""
        return self.reach if self.samples == self.n else None

    @property
    def reach(self) -> tuple[float, float] | None:
        """How far chance may move the accuracy: as if each sample were one completion."""
        if not self.n or not self.samples:
            return None
        return wilson(round(self.correct * self.samples / self.n), self.samples)


@dataclass(frozen=True)
class ReasonCounts:
    """INVALID completions with one reason: how many state an answer somewhere, and the right
    one.
    """

    reason: str
    count: int
    stated: int
    right: int
    example: str
    completion: str | None


@dataclass(frozen=True)
class CleanRows:
    """What is left when samples with doubtful labels are taken out, by a column of the dataset.

    `every` has the metrics of the run on all rows, `metrics` those on clean ones.
    """

    column: str
    values: tuple[str, ...]
    labels: Mapping[str, int]
    n: int
    readers: tuple[ReaderCounts, ...]
    every: Mapping[str, MetricValue]
    metrics: Mapping[str, MetricValue]


@dataclass(frozen=True)
class TaskAudit:
    """The audit of one task. `n` completions count; `left_out` says why others do not.

    Without a scorer that reads choices there are no readers, and nothing that follows from them.
    `flips` are completions that not all rules read alike, at the positions `flipped_rows`.
    `drawn_from` is how many completions there are, where not all were read.
    """

    key: str
    scorer: str | None
    rule: str | None
    n: int
    left_out: Mapping[str, int]
    num_trials: int
    samples: int
    readers: tuple[ReaderCounts, ...] = ()
    flips: int = 0
    flipped: tuple[str, ...] = ()
    reasons: tuple[ReasonCounts, ...] = ()
    letters: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    choice_counts: Mapping[int, int] = field(default_factory=dict)
    clean: CleanRows | None = None
    findings: tuple[Finding, ...] = ()
    drawn_from: int | None = None
    flipped_rows: pl.Series | None = field(default=None, compare=False, repr=False)

    @property
    def own(self) -> ReaderCounts | None:
        """What the run itself read."""
        return next((one for one in self.readers if one.kind == "own"), None)

    @property
    def chance(self) -> float | None:
        """What guessing among the choices would get."""
        return measure_chance(self.choice_counts)

    @property
    def corrected(self) -> float | None:
        """The accuracy of the run's own reading, corrected for chance."""
        accuracy, chance = None if self.own is None else self.own.accuracy, self.chance
        return None if accuracy is None or chance is None else correct_for_chance(accuracy, chance)

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa of letters true and predicted."""
        return measure_kappa(self.letters)

    @property
    def recalls(self) -> Mapping[str, float]:
        """The share found of each letter."""
        return measure_recalls(self.letters)

    @property
    def spread(self) -> float | None:
        """RStd of the recalls, in points."""
        return measure_rstd(list(self.recalls.values()))

    @property
    def unfit(self) -> tuple[str, ...]:
        """The rules and lenses that read less than half of the completions."""
        return tuple(one.name for one in self.readers if one.kind != "own" and not one.reads_half)


# ------------------------------------------------------------------------------- what stands out

FIRST, LITERAL, _, STATED = RULE_NAMES
#: So short are texts of a token or two; one of them that is a word is its beginning.
SHORT = 12
#: Fewer completions show nothing.
LEAST = 20
#: Nearly all, and few.
MOST_SHARE, FEW_SHARE = 0.95, 0.05
#: From here on the INVALID completions are worth a sentence of their own.
INVALID_SHARE = 0.10
#: A letter that is predicted so much more often than it is true is favoured.
FAVOURED = 0.10
#: A letter that is true so often would be predicted now and then by any model that knows of it.
OFTEN_TRUE = 10
#: A template leaves its placeholder in every prompt, a question of its own only in one.
IN_MOST = 0.9
#: Of texts that are all short, so many single words look cut off.
STUB_SHARE = 0.01
#: As much of a completion as a sentence bears.
SHOWN_TEXT = 60

INVALID = Validity.INVALID.value


def find_run_findings(audit: TaskAudit, part: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield what stands out, the gravest first; `part` is what `measure_rows` counts, merged."""
    return _mark_drawn(audit, _find_all(audit, part))


def find_format(audit: TaskAudit) -> Iterator[Finding]:
    """Yield whether another rule would move the accuracy, of the same completions, out of its
    interval.
    """
    return _mark_drawn(audit, _find_format(audit))


def _mark_drawn(audit: TaskAudit, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield findings.

    Where not all samples were read, each says so: its numbers are not those of the run.
    """
    for one in findings:
        drawn = (
            f"On {audit.samples:,} samples drawn at random: "
            f"{one.sentence[:1].lower()}{one.sentence[1:]}"
        )
        yield one if audit.drawn_from is None else replace(one, sentence=drawn)


def _find_all(audit: TaskAudit, part: Mapping[str, Any]) -> Iterator[Finding]:
    n, own, letters, statuses, cut = (
        audit.n,
        audit.own,
        audit.letters,
        part["statuses"],
        part["cut_off"],
    )
    answered = statuses.get(CompletionStatus.OK.value, 0)
    predicted: Counter[str] = Counter()
    for row in letters.values():
        predicted.update({letter: count for letter, count in row.items() if letter != INVALID})
    valid = predicted.total()

    prompts = part["prompts"]["n"]
    left = part["prompts"]["placeholders"].items()
    unfilled = {name: count for name, count in left if count >= IN_MOST * prompts}
    if prompts and unfilled:
        names, count = ", ".join(f"`{name}`" for name in sorted(unfilled)), max(unfilled.values())
        yield Finding(
            "UNFILLED_PLACEHOLDER",
            f"{format_part(count, prompts)} of the prompts still hold {names}, which "
            "nobody filled: the model"
            " did not see what should stand there.",
            "correct the name in the prompt's template; `answerkey run FILE --dry-run` "
            "shows the first"
            " prompt",
            {"prompts": count, "of": prompts},
        )

    key, same = max(part["texts"].items(), key=lambda one: (one[1], one[0]), default=("", 0))
    are_alike = same > 0 and answered >= LEAST and same >= MOST_SHARE * answered
    if are_alike:
        how = f"All {same:,}" if same == answered else f"{format_part(same, answered)} of the"
        text = key.partition(" ")[2]
        shown = repr(text if len(text) <= SHOWN_TEXT else f"{text[:SHOWN_TEXT]}…")
        yield Finding(
            "COMPLETIONS_ALIKE",
            f"{how} completions are the same: {shown}. Nothing was answered question by question.",
            "look at the prompt and the reply of one sample with `answerkey explain`: "
            "is the question in it?",
            {"same": same, "of": answered},
        )

    letter, count = max(predicted.items(), key=lambda one: (one[1], one[0]), default=("", 0))
    true = sum(letters.get(letter, {}).values())
    if valid >= LEAST and count >= MOST_SHARE * valid and true < MOST_SHARE * n and not are_alike:
        how = f"All {count:,}" if count == valid else f"{format_part(count, valid)} of the"
        yield Finding(
            "ONE_LETTER",
            f"{how} valid completions answer {letter!r}, which is true of "
            f"{format_part(true, n)}: the score"
            " says how often that letter is right, not what the model knows.",
            "look at some prompts with `answerkey explain`: do they hold the options "
            "and ask for the answer?",
            {"letter": letter, "predicted": count, "valid": valid, "true": true},
        )

    yield from _find_chance(audit)
    yield from _find_format(audit)

    if own is not None and audit.reasons and own.invalid >= INVALID_SHARE * own.n:
        stated, right = (
            sum(getattr(one, name) for one in audit.reasons) for name in ("stated", "right")
        )
        first = audit.reasons[0]
        what = f"{stated:,} of them state an answer, {right:,} the right one"
        yield Finding(
            "INVALID",
            f"{format_part(own.invalid, own.n)} completions are INVALID, {first.count:,} of them"
            f" {first.reason}; {what if stated else 'none states a single answer'}.",
            "ask for the letter alone in the prompt, or read them by another rule, see the table",
            {"invalid": own.invalid, "of": own.n, "stated": stated, "right": right},
            tuple(one.example for one in audit.reasons),
        )

    if cut["count"] and n:
        reasons = [
            f"{cut[name]:,} {what}"
            for name, what in (
                ("by_limit", "ended at the limit of tokens"),
                ("open_thoughts", "end within a thought that was never closed"),
            )
            if cut[name]
        ]
        yield Finding(
            "CUT_OFF",
            f"{format_part(cut['count'], n)} completions are cut off ({', '.join(reasons)});"
            f" {cut['invalid']:,} of them are INVALID.",
            "raise `max_tokens` of the model and run again: a cut-off reply says "
            "nothing about knowledge",
            {"cut_off": cut["count"], "of": n, "invalid": cut["invalid"]},
            tuple(cut["examples"]),
        )

    # They look cut off though nothing says so: one word where all texts are very short.
    stubs = cut["stubs"]["count"]
    are_short = answered >= LEAST and cut["short"] >= answered and not cut["by_limit"]
    if are_short and stubs >= STUB_SHARE * answered:
        yield Finding(
            "CUT_OFF",
            f"{format_part(stubs, n)} completions are a word that is no choice, and "
            "none is longer than"
            f" {SHORT} characters: they look cut off after a token or two.",
            "raise `max_tokens` of the model, or ask for the letter alone in the prompt",
            {"cut_off": stubs, "of": n, "invalid": stubs},
            tuple(cut["stubs"]["examples"]),
        )

    disagree = part.get("disagree") or {"count": 0}
    if disagree["count"] and not {FIRST, STATED}.intersection(audit.unfit):
        yield Finding(
            "FIRST_AND_STATED_DISAGREE",
            f"In {format_part(disagree['count'], n)} completions the first character is "
            "one choice and the"
            f" text states another; the first is right in {disagree['first_right']:,}, "
            "the stated one in"
            f" {disagree['stated_right']:,}.",
            "read some with `answerkey explain`; for texts that reason first, use `extraction:"
            " stated_answer`",
            {name: disagree[name] for name in ("count", "first_right", "stated_right")},
            tuple(disagree["examples"]),
        )

    totals = {one: sum(row.values()) for one, row in letters.items() if one not in predicted}
    never = {one: count for one, count in totals.items() if count >= OFTEN_TRUE}
    if never and valid >= LEAST and len(predicted) > 1:
        names = ", ".join(f"{one!r} ({count:,})" for one, count in never.items())
        yield Finding(
            "NEVER_PREDICTED",
            f"Some letters are true and never predicted: {names}. All of these samples "
            "are wrong, whatever"
            " the model knows.",
            "does the prompt show these options, and does it say that all letters may be answered?",
            never,
        )

    if valid >= 5 * LEAST and not are_alike:
        # Only rows with a prediction: INVALID ones would make every letter look neglected.
        trues = {one: sum(row.values()) - row.get(INVALID, 0) for one, row in letters.items()}
        excess = {one: (count - trues.get(one, 0)) / valid for one, count in predicted.items()}
        letter = max(sorted(excess), key=lambda one: excess[one])
        count, true = predicted[letter], trues.get(letter, 0)
        if excess[letter] >= FAVOURED and count < MOST_SHARE * valid:
            spread = ""
            if audit.spread is not None:  # a single letter has no spread
                spread = f" The recalls of the letters spread by {audit.spread:.1f} points (RStd)."
            yield Finding(
                "FAVOURED_LETTER",
                f"{letter!r} is predicted in {format_part(count, valid)} of the valid "
                "completions and true in"
                f" {format_part(true, valid)}.{spread}",
                "ask again with the options in another order; a model that knows the "
                "answers is not moved by"
                " it",
                {"letter": letter, "predicted": count, "true": true},
            )

    for status, what in (("REFUSED", "were refused"), ("NO_TEXT", "have no text")):
        count = statuses.get(status, 0)
        if n and count >= max(FEW_SHARE * n, 1):
            low, high = wilson(count, n)
            yield Finding(
                status,
                f"{format_part(count, n)} completions {what} [{100 * low:.1f}, "
                f"{100 * high:.1f}]; they count"
                " as wrong.",
                "see which with `answerkey export`; is it the questions, or the "
                "settings of the endpoint?",
                {"count": count, "of": n},
            )


def _find_chance(audit: TaskAudit) -> Iterator[Finding]:
    own, chance = audit.own, audit.chance
    if own is None or own.n < LEAST or chance is None or own.reach is None or own.accuracy is None:
        return
    low, high = own.reach
    if low > chance:
        return
    if 2 * own.invalid > own.n - own.correct:
        meant, step = "most of what is wrong is INVALID.", "see below what the completions state"
    elif high < chance:
        meant = (
            "a model that knew nothing would do better; are the letters shifted against the key?"
        )
        step = _advise_shift(audit)
    else:
        meant = "guessing would do as well."
        step = "look at the prompt of a sample; else try a stronger model"
    yield Finding(
        "CHANCE_LEVEL",
        f"The accuracy of {format_short_percent(own.accuracy)} [{100 * low:.1f}, "
        f"{100 * high:.1f}] is"
        f" {'below' if high < chance else 'not above'} the chance level of "
        f"{format_short_percent(chance)}:"
        f" {meant}",
        step,
        {"accuracy": own.accuracy, "chance": chance},
    )


def _advise_shift(audit: TaskAudit) -> str:
    """Return what to look at when letters are systematically wrong: a key that is off by some
    places.
    """
    letters = sorted(audit.letters)
    for step in range(1, len(letters)):
        shifted = zip(letters, letters[step:] + letters[:step], strict=True)
        hits = sum(audit.letters[letter].get(other, 0) for letter, other in shifted)
        if hits > audit.n / 2:
            place = "one letter" if step == 1 else f"{step} letters"
            share = format_part(hits, audit.n)
            return f"with every truth moved by {place}, {share} would be right: check the key"
    return (
        "check the truths with `answerkey audit-dataset` and some samples with `answerkey explain`"
    )


def _find_format(audit: TaskAudit) -> Iterator[Finding]:
    own = audit.own
    if own is None or own.reach is None or own.accuracy is None:
        return
    low, high = own.reach
    # The literal rule is no advice: what it gains it gains by reading "Answer" as an A.
    others = [
        one
        for one in audit.readers
        if one.kind == "rule"
        and one.name != LITERAL
        and one.reads_half
        and one.accuracy is not None
        if not low <= one.accuracy <= high
    ]
    other = max(others, key=lambda one: (one.correct, one.name == STATED), default=None)
    if other is None or other.accuracy is None:
        return
    before, after = format_short_percent(own.accuracy), format_short_percent(other.accuracy)
    is_better = other.accuracy > own.accuracy
    if is_better:
        rule = "the first character" if audit.rule == FIRST else f"`{audit.rule}`"
        what = "the answers that the texts state" if other.name == STATED else f"`{other.name}`"
        sentence = (
            f"{before} by {rule}; {after} by {what}: the difference is format, not knowledge."
        )
        step = f"try `extraction: {other.name}`: `answerkey rescore RUN TASK_FILE` calls no model"
    else:
        start = f"{before} by `{audit.rule}`, {after} by `{other.name}`"
        sentence = f"{start}: part of the number rests on how the text is read."
        step = (
            "look at some of them with `answerkey explain`, and always report the "
            "extraction rule together"
            " with the accuracy"
        )
    numbers: dict[str, str | float] = {
        "rule": other.name,
        "accuracy": own.accuracy,
        "other": other.accuracy,
        "gains": other.gains,
    }
    yield Finding("FORMAT", sentence, step, numbers, other.gained if is_better else other.lost)
