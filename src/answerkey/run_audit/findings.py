"""The numbers of an audit as plain values, and the findings that follow from them.

Every summary contains the short form, so nothing here reads a completion, a task or a template.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

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
from answerkey.types import RULE_NAMES, CompletionStatus, Validity

FIRST, LITERAL, _, STATED = RULE_NAMES
INVALID = Validity.INVALID.value
#: The maximum number of example samples.
MAX_EXAMPLES = 5
#: With fewer completions there are no findings.
MIN_COMPLETIONS = 20
MAX_SHARE = 0.95
#: The share from which INVALID completions are a finding.
INVALID_SHARE = 0.10
#: The excess of predictions over truths that makes a letter favoured: as a share, and as a count.
FAVOURED, FAVOURED_COUNT = 0.10, 10
#: An unfilled placeholder is in nearly every prompt; braces of a question are in one.
NEARLY_ALL = 0.9
SHOWN_TEXT = 60


@dataclass(frozen=True)
class Finding:
    """A sentence with its numbers, what to do about it, and example samples.

    `kind` is its name in `--json`; the reference page of audits lists them.
    """

    kind: str
    sentence: str
    step: str
    numbers: Mapping[str, float | int | str] = field(default_factory=dict)
    examples: tuple[str, ...] = ()


@dataclass
class ReadingTally:
    """Counts of completions by key, such as `("cut_off",)` or `("status", "OK")`, with the first
    samples of each.

    `first_texts` has the first completion for each reason for INVALID, `flipped_rows` the positions
    of completions on which the rules disagree.
    """

    counts: Counter[tuple[str, ...]] = field(default_factory=Counter)
    examples: dict[tuple[str, ...], list[str]] = field(default_factory=dict)
    first_texts: dict[str, str | None] = field(default_factory=dict)
    flipped_rows: list[int] = field(default_factory=list)

    def add(
        self,
        table: pl.DataFrame,
        is_counted: pl.Expr,
        *key: str,
    ) -> None:
        """Count some rows of a table of completions, and keep the ids of the first samples."""
        ids = table.filter(is_counted)["id"]
        self.counts[key] += len(ids)
        examples = self.examples.setdefault(key, [])
        room = MAX_EXAMPLES - len(examples)
        if room:
            examples.extend(ids.unique(maintain_order=True).head(room))

    def add_groups(
        self,
        key: str | tuple[str, ...],
        values: pl.Series,
        most: int | None = None,
    ) -> None:
        """Count completions by their values, or by the most frequent values only."""
        start = (key,) if isinstance(key, str) else key
        counts = values.drop_nulls().value_counts(sort=True)
        if most is not None:
            counts = counts.head(most)
        for value, count in counts.iter_rows():
            self.counts[*start, value] += count

    def update(self, further: ReadingTally) -> None:
        """Add the counts of the completions that follow these."""
        self.counts.update(further.counts)
        for key, examples in further.examples.items():
            shown = self.examples.setdefault(key, [])
            shown += examples[: MAX_EXAMPLES - len(shown)]
        self.first_texts = further.first_texts | self.first_texts
        self.flipped_rows += further.flipped_rows

    def count(self, *key: str) -> int:
        """Return the number of completions with this key."""
        return self.counts[key]

    def shown(self, *key: str) -> tuple[str, ...]:
        """Return the example samples of this key."""
        return tuple(self.examples.get(key, ()))

    def group(self, *key: str) -> dict[str, int]:
        """Return the counts of the keys with one more part, by that part, the largest first."""
        counts = {}
        for (*start, last), count in self.counts.most_common():
            if tuple(start) == key:
                counts[last] = count
        return counts

    def largest(self, *key: str) -> tuple[str, int]:
        """Return the last part of the largest of these counts, and the count."""
        counts = sorted(self.group(*key).items(), reverse=True)
        return max(counts, key=lambda item: item[1], default=("", 0))


@dataclass(frozen=True)
class ReaderCounts:
    """The readings of a rule, or of another harness's extractor, in `n` completions.

    `gains` counts completions that are right by this reading but not by the run's own, `losses` the
    opposite, `changes` all that are read differently; `gained` and `lost` are the first samples of
    each. Completions of one sample are not independent: with fewer `samples` than completions there
    is no interval.
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
        """The share of right answers; None without completions."""
        return self.correct / self.n if self.n else None

    @property
    def read(self) -> int:
        """The number of completions in which it reads a choice."""
        return self.n - self.invalid

    @property
    def invalid_share(self) -> float | None:
        """The share of completions in which it reads no choice."""
        return self.invalid / self.n if self.n else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % Wilson interval of the accuracy; None if completions are not independent."""
        return self.reach if self.samples == self.n else None

    @property
    def reach(self) -> tuple[float, float] | None:
        """The interval of the accuracy with the number of samples as n, which bounds the effect of
        chance.
        """
        if not self.n or not self.samples:
            return None
        right = round(self.correct * self.samples / self.n)
        return wilson(right, self.samples)


@dataclass(frozen=True)
class ReasonCounts:
    """INVALID completions with one reason, and how many of them state an answer, or the right one,
    anyway.
    """

    reason: str
    count: int
    stated: int
    right: int
    example: str
    completion: str | None


@dataclass(frozen=True)
class TaskAudit:
    """The audit of one task. `n` completions count; `left_out` counts the others by reason.

    Without a scorer that reads choices there are no readers and no numbers from them. `flips` are
    completions on which the rules disagree, at the positions `flipped_rows`. `drawn_from` is the
    number of all completions if only a sample was read.
    """

    key: str
    scorer: str | None = None
    rule: str | None = None
    n: int = 0
    samples: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    readers: tuple[ReaderCounts, ...] = ()
    flips: int = 0
    flipped: tuple[str, ...] = ()
    reasons: tuple[ReasonCounts, ...] = ()
    letters: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    choice_counts: Mapping[int, int] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    drawn_from: int | None = None
    flipped_rows: Sequence[int] = field(
        default=(),
        compare=False,
        repr=False,
    )

    @property
    def own(self) -> ReaderCounts | None:
        """The run's own reading."""
        for reader in self.readers:
            if reader.kind == "own":
                return reader
        return None

    @property
    def chance(self) -> float | None:
        """The accuracy of guessing among the choices."""
        return measure_chance(self.choice_counts)

    @property
    def corrected(self) -> float | None:
        """The accuracy of the run's own reading, corrected for chance."""
        accuracy = None
        if self.own is not None:
            accuracy = self.own.accuracy
        if accuracy is None or self.chance is None:
            return None
        return correct_for_chance(accuracy, self.chance)

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa of true and predicted letters."""
        return measure_kappa(self.letters)

    @property
    def recalls(self) -> Mapping[str, float]:
        """The recall of each letter."""
        return measure_recalls(self.letters)

    @property
    def spread(self) -> float | None:
        """The standard deviation of the recalls (RStd), in points."""
        return measure_rstd(list(self.recalls.values()))

    @property
    def unfit(self) -> tuple[str, ...]:
        """The rules and extractors that read less than half of the completions."""
        names = []
        for reader in self.readers:
            if reader.kind != "own" and 2 * reader.invalid > reader.n:
                names.append(reader.name)
        return tuple(names)

    @property
    def predicted(self) -> Counter[str]:
        """How often each letter is predicted."""
        predicted: Counter[str] = Counter()
        for row in self.letters.values():
            predicted.update(row)
        del predicted[INVALID]
        return predicted


def find_run_findings(audit: TaskAudit, tally: ReadingTally) -> list[Finding]:
    """Return the findings, the most serious first."""
    findings = [
        *_find_placeholders(tally),
        *_find_alike(tally),
        *_find_chance(audit),
        *_find_format(audit),
        *_find_invalid(audit),
        *_find_cut_off(audit, tally),
        *_find_disagreement(audit, tally),
        *_find_favoured_letter(audit, tally),
    ]
    return [_mark_drawn(audit, finding) for finding in findings]


def find_format(audit: TaskAudit) -> list[Finding]:
    """Return a finding if another rule moves the accuracy out of its interval."""
    return [_mark_drawn(audit, finding) for finding in _find_format(audit)]


def _mark_drawn(audit: TaskAudit, finding: Finding) -> Finding:
    """Return the finding; if only a sample was read, its sentence says so."""
    if audit.drawn_from is None:
        return finding
    sentence = f"{finding.sentence[:1].lower()}{finding.sentence[1:]}"
    drawn = f"On {audit.samples:,} samples drawn at random: {sentence}"
    return replace(finding, sentence=drawn)


def _answered(tally: ReadingTally) -> int:
    return tally.count("status", CompletionStatus.OK.value)


def _are_alike(tally: ReadingTally) -> bool:
    """Return whether nearly all completions are the same text."""
    _, same = tally.largest("text")
    answered = _answered(tally)
    return answered >= MIN_COMPLETIONS and same >= MAX_SHARE * answered


def _find_placeholders(tally: ReadingTally) -> Iterator[Finding]:
    prompts = tally.count("prompts")
    placeholders = tally.group("placeholder")
    least = NEARLY_ALL * prompts
    unfilled = {name: count for name, count in placeholders.items() if count >= least}
    if not prompts or not unfilled:
        return
    names = ", ".join(f"`{name}`" for name in sorted(unfilled))
    count = max(unfilled.values())
    yield Finding(
        "UNFILLED_PLACEHOLDER",
        f"{format_part(count, prompts)} of the prompts still contain {names}, unfilled: "
        "the model did not see what belongs there.",
        "correct the name in the prompt's template; `answerkey run FILE --dry-run` shows the first "
        "prompt",
        {"prompts": count, "of": prompts},
    )


def _find_alike(tally: ReadingTally) -> Iterator[Finding]:
    if not _are_alike(tally):
        return
    key, same = tally.largest("text")
    answered = _answered(tally)
    extent = f"{format_part(same, answered)} of the"
    if same == answered:
        extent = f"All {same:,}"
    text = key.partition(" ")[2]
    if len(text) > SHOWN_TEXT:
        text = f"{text[:SHOWN_TEXT]}…"
    yield Finding(
        "COMPLETIONS_ALIKE",
        f"{extent} completions are the same: {text!r}. The questions were not answered one by one.",
        "check the prompt and the reply of one sample with `answerkey explain`: is the question "
        "in it?",
        {"same": same, "of": answered},
    )


def _find_chance(audit: TaskAudit) -> Iterator[Finding]:
    reader = audit.own
    chance = audit.chance
    if reader is None or reader.reach is None or chance is None:
        return
    low, high = reader.reach
    if reader.n < MIN_COMPLETIONS or low > chance:
        return
    share = reader.correct / reader.n
    word = "below" if high < chance else "not above"
    if 2 * reader.invalid > reader.n - reader.correct:
        meaning = "most of what is wrong is INVALID."
        step = "see below which answers the completions state"
    elif high < chance:
        shifted = "are the letters shifted against the key?"
        meaning = f"guessing would do better; {shifted}"
        step = "check the truths with `answerkey audit-dataset`, samples with `answerkey explain`"
    else:
        meaning = "guessing would do as well."
        step = "check the prompt of a sample, or try a stronger model"
    accuracy = f"{format_short_percent(share)} [{100 * low:.1f}, {100 * high:.1f}]"
    yield Finding(
        "CHANCE_LEVEL",
        f"The accuracy of {accuracy} is {word} the chance level of "
        f"{format_short_percent(chance)}: {meaning}",
        step,
        {"accuracy": share, "chance": chance},
    )


def _find_format(audit: TaskAudit) -> Iterator[Finding]:
    reader = audit.own
    outsider = find_outsider(audit)
    if reader is None or outsider is None:
        return
    accuracy = reader.accuracy or 0.0
    outside = outsider.accuracy or 0.0
    before = format_short_percent(accuracy)
    after = format_short_percent(outside)
    if outside > accuracy:
        rule = "the first character" if audit.rule == FIRST else f"`{audit.rule}`"
        better = f"`{outsider.name}`"
        if outsider.name == STATED:
            better = "the answers that the texts state"
        difference = "the difference is format, not knowledge"
        sentence = f"{before} by {rule}; {after} by {better}: {difference}."
        step = (
            f"try `extraction: {outsider.name}`: `answerkey rescore RUN TASK_FILE` calls no model"
        )
        examples = outsider.gained
    else:
        start = f"{before} by `{audit.rule}`, {after} by `{outsider.name}`"
        sentence = f"{start}: part of the number depends on how the text is read."
        step = (
            "check some of them with `answerkey explain`, and always report the extraction rule "
            "together with the accuracy"
        )
        examples = outsider.lost
    numbers: dict[str, str | float] = {
        "rule": outsider.name,
        "accuracy": accuracy,
        "other": outside,
        "gains": outsider.gains,
    }
    yield Finding("FORMAT", sentence, step, numbers, examples)


def find_outsider(audit: TaskAudit) -> ReaderCounts | None:
    """Return the best rule whose accuracy is outside the interval of the run's own.

    The literal rule is never recommended: it gains by reading "Answer" as an A.
    """
    own_reader = audit.own
    if own_reader is None or own_reader.reach is None:
        return None
    low, high = own_reader.reach
    best: ReaderCounts | None = None
    for reader in audit.readers:
        if reader.kind != "rule" or reader.name in {LITERAL, *audit.unfit}:
            continue
        if low <= reader.correct / reader.n <= high:
            continue
        is_stated = reader.name == STATED  # preferred in a tie
        if best is None or (reader.correct, is_stated) > (best.correct, False):
            best = reader
    return best


def _find_invalid(audit: TaskAudit) -> Iterator[Finding]:
    reader = audit.own
    if reader is None or not audit.reasons:
        return
    if reader.invalid < INVALID_SHARE * reader.n:
        return
    stating = sum(reason.stated for reason in audit.reasons)
    right = sum(reason.right for reason in audit.reasons)
    first = audit.reasons[0]
    answers = "none states a single answer"
    if stating:
        answers = f"{stating:,} of them state an answer, {right:,} the right one"
    yield Finding(
        "INVALID",
        f"{format_part(reader.invalid, reader.n)} completions are INVALID, {first.count:,} of them "
        f"{first.reason}; {answers}.",
        "ask for only the letter in the prompt, or read them by another rule, see the table",
        {
            "invalid": reader.invalid,
            "of": reader.n,
            "stated": stating,
            "right": right,
        },
        tuple(reason.example for reason in audit.reasons),
    )


def _find_cut_off(audit: TaskAudit, tally: ReadingTally) -> Iterator[Finding]:
    count = tally.count("cut_off")
    invalid = tally.count("cut_off_invalid")
    if not count or not audit.n:
        return
    reasons = []
    if tally.count("by_limit"):
        reasons.append(f"{tally.count('by_limit'):,} ended at the token limit")
    if tally.count("open_thought"):
        thoughts = f"{tally.count('open_thought'):,}"
        reasons.append(f"{thoughts} end within a thought that was never closed")
    yield Finding(
        "CUT_OFF",
        f"{format_part(count, audit.n)} completions are cut off ({', '.join(reasons)}); "
        f"{invalid:,} of them are INVALID.",
        "raise `max_tokens` of the model and run again: a truncated reply says nothing about "
        "knowledge",
        {"cut_off": count, "of": audit.n, "invalid": invalid},
        tally.shown("cut_off"),
    )


def _find_disagreement(audit: TaskAudit, tally: ReadingTally) -> Iterator[Finding]:
    count = tally.count("disagree")
    if not count or {FIRST, STATED}.intersection(audit.unfit):
        return
    first = tally.count("first_right")
    second = tally.count("stated_right")
    yield Finding(
        "FIRST_AND_STATED_DISAGREE",
        f"In {format_part(count, audit.n)} completions the first character is one choice and the "
        f"text states another; the first is right in {first:,}, the stated one in {second:,}.",
        "read some with `answerkey explain`; for texts that reason first, use `extraction: "
        "stated_answer`",
        {"count": count, "first_right": first, "stated_right": second},
        tally.shown("disagree"),
    )


def _find_favoured_letter(audit: TaskAudit, tally: ReadingTally) -> Iterator[Finding]:
    predicted = audit.predicted
    valid = predicted.total()
    if valid < MIN_COMPLETIONS or _are_alike(tally):
        return
    excess = Counter(predicted)
    for letter, row in audit.letters.items():
        # INVALID rows are left out: they would make every letter look neglected.
        excess[letter] -= sum(row.values()) - row.get(INVALID, 0)
    letter = max(sorted(predicted), key=excess.__getitem__)
    count = predicted[letter]
    true = count - excess[letter]
    if excess[letter] < max(FAVOURED * valid, FAVOURED_COUNT):
        return
    sentence = (
        f"{letter!r} is predicted in {format_part(count, valid)} of the valid completions and true "
        f"in {format_part(true, valid)}."
    )
    if audit.spread is not None:
        sentence += f" The recalls of the letters spread by {audit.spread:.1f} points (RStd)."
    yield Finding(
        "FAVOURED_LETTER",
        sentence,
        "run again with the options in another order; a model that knows the answers "
        "is not affected by it",
        {"letter": letter, "predicted": count, "true": true},
    )
