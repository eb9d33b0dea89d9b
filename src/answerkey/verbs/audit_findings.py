"""What stands out in an audit of a run: sentences with their numbers, each with a next step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from answerkey.metrics import wilson
from answerkey.scorers.scoring import FIRST, LITERAL, STATED
from answerkey.types import Validity
from answerkey.verbs.audit_parts import SHORT
from answerkey.verbs.audits import Finding, ReaderCounts, TaskAudit

#: Fewer completions show nothing.
LEAST = 20
#: Smaller shares are printed with one digit more.
FEW_HUNDREDTHS = 0.01
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

INVALID = Validity.INVALID.value


def find_run_findings(audit: TaskAudit, part: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield what stands out, the gravest first."""
    return _mark_drawn(audit, _find_all(audit, part))


def _mark_drawn(audit: TaskAudit, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield findings; where not all samples were read, each says so: its numbers are not those of the run."""
    if audit.drawn_from is None:
        yield from findings
        return
    for one in findings:
        start = f"On {audit.samples:,} samples drawn at random: "
        yield replace(one, sentence=f"{start}{one.sentence[:1].lower()}{one.sentence[1:]}")


def _find_all(audit: TaskAudit, part: Mapping[str, Any]) -> Iterator[Finding]:
    yield from find_placeholders(part["prompts"])
    alike = list(_find_alike(part))
    yield from alike
    yield from () if alike else _find_one_letter(audit)
    yield from _find_chance(audit)
    yield from _find_format(audit)
    yield from _find_invalid(audit)
    yield from _find_cut_off(audit, part["cut_off"])
    yield from _find_stubs(audit, part)
    yield from _find_disagreement(audit, part.get("disagree") or {"count": 0})
    yield from _find_never_predicted(audit)
    yield from () if alike else _find_favoured(audit)
    yield from _find_refused(audit, part["statuses"])


def say_share(count: int, n: int) -> str:
    """Return `12 of 80 (15.0 %)`."""
    return f"{count:,} of {n:,} ({say_percent(count / n)})"


def say_percent(share: float) -> str:
    """Return a share in per cent with one digit, with two where it is close to none or to all."""
    is_plain = share in {0, 1} or FEW_HUNDREDTHS <= share <= 1 - FEW_HUNDREDTHS
    return f"{100 * share:.{1 if is_plain else 2}f} %"


def find_placeholders(prompts: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield what was left unfilled in the prompts."""
    total = prompts["n"]
    found = {name: count for name, count in prompts["placeholders"].items() if count >= IN_MOST * total}
    if not total or not found:
        return
    names = ", ".join(f"`{name}`" for name in sorted(found))
    count = max(found.values())
    yield Finding(
        "UNFILLED_PLACEHOLDER",
        f"{say_share(count, total)} of the prompts still hold {names}, which nobody filled: the model did not"
        " see what should stand there.",
        "correct the name in the prompt's template; `answerkey run FILE --dry-run` shows the first prompt",
        {"prompts": count, "of": total},
    )


def _find_alike(part: Mapping[str, Any]) -> Iterator[Finding]:
    texts: Mapping[str, int] = part["texts"]
    total = part["statuses"].get("OK", 0)
    if total < LEAST or not texts:
        return
    key, count = max(texts.items(), key=lambda one: (one[1], one[0]))
    if count < MOST_SHARE * total:
        return
    how = "All" if count == total else f"{say_share(count, total)} of the"
    number = f"{count:,} " if count == total else ""
    text = key.partition(" ")[2]
    shown = repr(text if len(text) <= 60 else f"{text[:60]}…")  # noqa: PLR2004 - as much as a line bears
    yield Finding(
        "COMPLETIONS_ALIKE",
        f"{how} {number}completions are the same: {shown}. Nothing was answered question by question.",
        "look at the prompt and the reply of one sample with `answerkey explain`: is the question in it?",
        {"same": count, "of": total},
    )


def _find_one_letter(audit: TaskAudit) -> Iterator[Finding]:
    predicted = _count_predicted(audit.letters)
    valid = sum(predicted.values())
    if valid < LEAST or not predicted:
        return
    letter, count = max(predicted.items(), key=lambda one: (one[1], one[0]))
    true = sum(audit.letters.get(letter, {}).values())
    if count < MOST_SHARE * valid or true >= MOST_SHARE * audit.n:
        return
    how = "All" if count == valid else f"{say_share(count, valid)} of the"
    number = f"{count:,} " if count == valid else ""
    yield Finding(
        "ONE_LETTER",
        f"{how} {number}valid completions answer {letter!r}, which is true of {say_share(true, audit.n)}: the"
        " score says how often that letter is right, not what the model knows.",
        "look at some prompts with `answerkey explain`; are the options in it, and is the answer asked for?",
        {"letter": letter, "predicted": count, "valid": valid, "true": true},
    )


def _count_predicted(letters: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in letters.values():
        for letter, count in row.items():
            if letter != INVALID:
                found[letter] = found.get(letter, 0) + count
    return found


def _find_chance(audit: TaskAudit) -> Iterator[Finding]:
    own, chance = audit.own, audit.chance
    if own is None or own.n < LEAST or chance is None or own.reach is None or own.accuracy is None:
        return
    low, high = own.reach
    if low > chance:
        return
    word = "below" if high < chance else "not above"
    is_invalid = 2 * own.invalid > own.n - own.correct
    if is_invalid:
        meant, step = "most of what is wrong is INVALID.", "see below what the completions state"
    elif high < chance:
        meant = "a model that knew nothing would do better; are the letters shifted against the key?"
        step = _advise_shift(audit)
    else:
        meant, step = (
            "guessing would do as well.",
            "look at the prompt of a sample; else try a stronger model",
        )
    yield Finding(
        "CHANCE_LEVEL",
        f"The accuracy of {say_percent(own.accuracy)} [{100 * low:.1f}, {100 * high:.1f}] is {word} the"
        f" chance level of {say_percent(chance)}: {meant}",
        step,
        {"accuracy": own.accuracy, "chance": chance},
    )


def _advise_shift(audit: TaskAudit) -> str:
    """Return what to look at when letters are systematically wrong: a key that is off by some places."""
    letters = sorted(audit.letters)
    hits = {
        step: sum(
            audit.letters[letter].get(letters[(place + step) % len(letters)], 0)
            for place, letter in enumerate(letters)
        )
        for step in range(1, len(letters))
    }
    if hits and (best := max(hits, key=lambda step: hits[step])) and hits[best] > audit.n / 2:
        place = "one letter" if best == 1 else f"{best} letters"
        share = say_share(hits[best], audit.n)
        return f"with every truth moved by {place}, {share} would be right: check the key"
    return "check the truths with `answerkey audit-dataset` and some samples with `answerkey explain`"


def find_format(audit: TaskAudit) -> Iterator[Finding]:
    """Yield whether another rule would move the accuracy, of the same completions, out of its interval."""
    return _mark_drawn(audit, _find_format(audit))


def _find_format(audit: TaskAudit) -> Iterator[Finding]:
    own = audit.own
    if own is None or own.reach is None:
        return
    # The literal rule is no advice: what it gains it gains by reading "Answer" as an A.
    careful = [one for one in audit.readers if one.kind == "rule" and one.name != LITERAL and one.reads_half]
    rules = [one for one in careful if _is_outside(one, own.reach)]
    better = max(rules, key=lambda one: (one.correct, one.name == STATED), default=None)
    if better is None or better.accuracy is None or own.accuracy is None:
        return
    yield Finding(
        "FORMAT",
        say_format(str(audit.rule), own.accuracy, better.name, better.accuracy),
        advise_format(better.name, is_better=better.accuracy > own.accuracy),
        {"rule": better.name, "accuracy": own.accuracy, "other": better.accuracy, "gains": better.gains},
        better.gained if better.accuracy > own.accuracy else better.lost,
    )


def _is_outside(reader: ReaderCounts, interval: tuple[float, float]) -> bool:
    low, high = interval
    return reader.accuracy is not None and not low <= reader.accuracy <= high


def say_format(own_rule: str, own: float, rule: str, other: float) -> str:
    """Return the sentence about an accuracy that another rule would change."""
    if other < own:
        return (
            f"{say_percent(own)} by `{own_rule}`, {say_percent(other)} by `{rule}`: part of the number rests"
            " on how the text is read."
        )
    start = f"{say_percent(own)} by {'the first character' if own_rule == FIRST else f'`{own_rule}`'}"
    what = "by the answers that the texts state" if rule == STATED else f"by `{rule}`"
    return f"{start}; {say_percent(other)} {what}: the difference is format, not knowledge."


def advise_format(rule: str, *, is_better: bool) -> str:
    """Return what to do about it."""
    if is_better:
        return f"try `extraction: {rule}`: `answerkey rescore RUN TASK_FILE` asks no model"
    return "look at some of them with `answerkey explain`, and state the rule wherever the number stands"


def _find_invalid(audit: TaskAudit) -> Iterator[Finding]:
    own = audit.own
    if own is None or not audit.reasons or own.invalid < INVALID_SHARE * own.n:
        return
    stated = sum(one.stated for one in audit.reasons)
    right = sum(one.right for one in audit.reasons)
    first = audit.reasons[0]
    all_right = "none states a single answer"
    if stated:
        all_right = f"{stated:,} of them state an answer, {right:,} the right one"
    yield Finding(
        "INVALID",
        f"{say_share(own.invalid, own.n)} completions are INVALID, {first.count:,} of them {first.reason};"
        f" {all_right}.",
        "ask for the letter alone in the prompt, or read them by another rule, see the table",
        {"invalid": own.invalid, "of": own.n, "stated": stated, "right": right},
        tuple(one.example for one in audit.reasons),
    )


def _find_cut_off(audit: TaskAudit, cut: Mapping[str, Any]) -> Iterator[Finding]:
    if not cut["count"] or not audit.n:
        return
    reasons = []
    if cut["by_limit"]:
        reasons.append(f"{cut['by_limit']:,} ended at the limit of tokens")
    if cut["open_thoughts"]:
        reasons.append(f"{cut['open_thoughts']:,} end within a thought that was never closed")
    yield Finding(
        "CUT_OFF",
        f"{say_share(cut['count'], audit.n)} completions are cut off ({', '.join(reasons)});"
        f" {cut['invalid']:,} of them are INVALID.",
        "raise `max_tokens` of the model and run again: a cut-off reply says nothing about knowledge",
        {"cut_off": cut["count"], "of": audit.n, "invalid": cut["invalid"]},
        tuple(cut["examples"]),
    )


def _find_stubs(audit: TaskAudit, part: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield completions that look cut off though nothing says so: one word where all texts are very short."""
    cut = part["cut_off"]
    stubs, texts = cut["stubs"]["count"], part["statuses"].get("OK", 0)
    if cut["by_limit"] or texts < LEAST or cut["short"] < texts or stubs < FEW_HUNDREDTHS * texts:
        return
    yield Finding(
        "CUT_OFF",
        f"{say_share(stubs, audit.n)} completions are a word that is no choice, and none is longer than"
        f" {SHORT} characters: they look cut off after a token or two.",
        "raise `max_tokens` of the model, or ask for the letter alone in the prompt",
        {"cut_off": stubs, "of": audit.n, "invalid": stubs},
        tuple(cut["stubs"]["examples"]),
    )


def _find_disagreement(audit: TaskAudit, found: Mapping[str, Any]) -> Iterator[Finding]:
    if not found["count"] or {FIRST, STATED}.intersection(audit.unfit):
        return
    yield Finding(
        "FIRST_AND_STATED_DISAGREE",
        f"In {say_share(found['count'], audit.n)} completions the first character is one choice and the text"
        f" states another; the first is right in {found['first_right']:,}, the stated one in"
        f" {found['stated_right']:,}.",
        "read some with `answerkey explain`; for texts that reason first, use `extraction: stated_answer`",
        {name: found[name] for name in ("count", "first_right", "stated_right")},
        tuple(found["examples"]),
    )


def _find_never_predicted(audit: TaskAudit) -> Iterator[Finding]:
    predicted = _count_predicted(audit.letters)
    if sum(predicted.values()) < LEAST:
        return
    never = {
        letter: sum(row.values())
        for letter, row in audit.letters.items()
        if letter not in predicted and sum(row.values()) >= OFTEN_TRUE
    }
    if not never or len(predicted) <= 1:
        return
    names = ", ".join(f"{letter!r} ({count:,})" for letter, count in never.items())
    yield Finding(
        "NEVER_PREDICTED",
        f"Some letters are true and never predicted: {names}. All of these samples are wrong, whatever the"
        " model knows.",
        "does the prompt show these options, and does it say that all letters may be answered?",
        dict(never),
    )


def _find_favoured(audit: TaskAudit) -> Iterator[Finding]:
    predicted = _count_predicted(audit.letters)
    valid = sum(predicted.values())
    if valid < 5 * LEAST:
        return
    # Only rows with a prediction: INVALID ones would make every letter look neglected.
    true = {
        letter: sum(count for said, count in row.items() if said != INVALID)
        for letter, row in audit.letters.items()
    }
    excess = {letter: (count - true.get(letter, 0)) / valid for letter, count in predicted.items()}
    letter = max(sorted(excess), key=lambda one: excess[one])
    if excess[letter] < FAVOURED or predicted[letter] >= MOST_SHARE * valid:
        return
    spread = (
        ""
        if audit.spread is None
        else f" The recalls of the letters spread by {audit.spread:.1f} points (RStd)."
    )
    yield Finding(
        "FAVOURED_LETTER",
        f"{letter!r} is predicted in {say_share(predicted[letter], valid)} of the valid completions and true"
        f" in {say_share(true.get(letter, 0), valid)}.{spread}",
        "ask again with the options in another order; a model that knows the answers is not moved by it",
        {"letter": letter, "predicted": predicted[letter], "true": true.get(letter, 0)},
    )


def _find_refused(audit: TaskAudit, statuses: Mapping[str, int]) -> Iterator[Finding]:
    for status, what in (("REFUSED", "were refused"), ("NO_TEXT", "have no text")):
        count = statuses.get(status, 0)
        if audit.n and count >= max(FEW_SHARE * audit.n, 1):
            low, high = wilson(count, audit.n)
            yield Finding(
                status,
                f"{say_share(count, audit.n)} completions {what} [{100 * low:.1f}, {100 * high:.1f}]; they"
                " count as wrong.",
                "see which with `answerkey export`; is it the questions, or the settings of the endpoint?",
                {"count": count, "of": audit.n},
            )
