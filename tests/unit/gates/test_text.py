"""Laws of gates in words: what was measured and needed, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from answerkey.gates.rules import (
    advise_gate,
    describe_run_gates,
    draw_gates,
    explain_gate,
    judge_run,
    read_definition,
)
from answerkey.metrics import wilson
from answerkey.runs import Run, describe_gates, start_run
from answerkey.text import plain_text
from answerkey.types import Gate, GateCheck, GateStatus

PASS, FAIL, OPEN = GateStatus.PASS, GateStatus.FAIL, GateStatus.NOT_DECIDED
Stated = Mapping[str, object]
LEAST = {"type": "threshold", "metric": "Accuracy", "operator": ">=", "threshold": 0.8}
MORE = {**LEAST, "operator": ">"}
LOWER = {**LEAST, "bound": "lower"}
UPPER = {**LEAST, "bound": "upper", "operator": "<="}
BY_GROUP = {**LEAST, "group_by": "subject"}
MACRO = {**BY_GROUP, "average": "macro"}
EXISTS = {"type": "exists", "metric": "Accuracy"}
SHARE = {"type": "share", "of": "invalid", "operator": "<=", "threshold": 0.02}
NOT_WORSE = {"type": "not_worse"}
IS = "Accuracy is 85.00 % (n 100)"
INTERVAL = "95 % interval"
THERE = "in the baseline 80.00 %"
LOST = f"Accuracy is 75.00 %, {THERE}, -5.00 points, {INTERVAL} [-8.00, -2.00], p 0.00120 (n 100)"
EVEN = f"Accuracy is 79.00 %, {THERE}, -1.00 points, {INTERVAL} [-4.00, 2.00], p 0.40000 (n 100)"
NO_BASELINE = GateCheck("mcqa", "", OPEN, note="no baseline is named")


def gate(definition: Stated, *checks: GateCheck, **fields: Any) -> Gate:  # noqa: ANN401 - of Gate
    """Return a gate that stands as its first check does."""
    status = fields.pop("status", checks[0].status)
    return Gate("release", "rule", status, definition, "rule", checks=checks, **fields)


def check(status: GateStatus, number: float | None, **fields: Any) -> GateCheck:  # noqa: ANN401 - of GateCheck
    """Return a check of a share of 100 samples."""
    known: dict[str, Any] = {"value": number, "n": 100, "is_share": True, **fields}
    return GateCheck("mcqa", known.pop("name", "Accuracy"), status, number, **known)


def count(number: int) -> dict[str, int]:
    """Return the counts behind a share of 100 samples."""
    return {"count": number, "of": 100}


def difference(status: GateStatus, number: float, p: float, **fields: Any) -> GateCheck:  # noqa: ANN401 - same
    """Return a check against a baseline of 80 %."""
    details = {"baseline": "runs/base", "baseline_value": 0.8, "p_adjusted": p}
    known = {
        "value": 0.8 + number,
        "interval": (number - 0.03, number + 0.03),
        "details": details,
        **fields,
    }
    return check(status, number, **known)


@pytest.fixture(name="run")
def make_run() -> Run:
    """Return a complete run in memory, of one task."""
    return start_run(None, {"key": "demo", "display_name": "Demo", "tasks": []}, {}).finish(
        "complete", {}
    )


def with_gates(run: Run, *gates: Gate) -> Run:
    """Return a run that has these gates."""
    return replace(run, manifest={**run.manifest, "gates": describe_gates(gates)})


@pytest.mark.parametrize(
    ("definition", "found", "sentence"),
    [
        (LEAST, check(PASS, 0.85), f"{IS}, at least 80.00 %"),
        (LEAST, check(FAIL, 0.75), "Accuracy is 75.00 % (n 100); needed: at least 80.00 %"),
        (LEAST, check(FAIL, 0.799996), "Accuracy is 79.9996 % (n 100); needed: at least 80.0000 %"),
        (MORE, check(FAIL, 0.8), "Accuracy is 80.00 % (n 100); needed: more than 80.00 %"),
        (LOWER, check(FAIL, 0.77, value=0.85), f"{IS}, its {INTERVAL} begins at 77.00 %; needed: at least 80.00 %"),  # noqa: E501 - one case, one line
        (UPPER, check(PASS, 0.77, value=0.85), (f"{IS}, its {INTERVAL} ends at 77.00 "
"%, at most 80.00 %")),
        ({**LEAST, "threshold": 3}, check(PASS, 3.25, is_share=False), "Accuracy is 3.25 (n 100), at least 3"),  # noqa: E501 - one case, one line
        (LEAST, check(FAIL, None, note="no sample"), ("Accuracy: no sample; it must be "
"at least 80.00 %")),
        (BY_GROUP, check(PASS, 0.85, group="law",
        repetition=2), f"law, run 2: {IS}, at least 80.00 %"),
        (MACRO, check(PASS, 0.85), f"the macro average of {IS.replace('y', 'y by subject')}, at least 80.00 %"),  # noqa: E501 - one case, one line
        (EXISTS, check(PASS, 0.9), "Accuracy has a value: 90.00 % (n 100)"),
        (EXISTS, check(FAIL, None, note="0/0"), "Accuracy has no value: 0/0"),
        (SHARE, check(FAIL, 0.05, name="X", details=count(5)), "X is 5.00 % (5 of 100); needed: at most 2.00 %"),  # noqa: E501 - one case, one line
        # Not to be significantly worse is not to be shown equal: the possible loss is named.
        (NOT_WORSE, difference(FAIL, -0.05, 0.0012), f"{LOST}: significantly worse (p below 0.05)"),
        (NOT_WORSE, difference(PASS, -0.01, 0.4), f"{EVEN}: not significantly worse, but a loss of up to 4.00 points is not ruled out"),  # noqa: E501 - one case, one line
        ({**NOT_WORSE, "better": "lower"}, difference(PASS, -0.05, 0.0012), f"{LOST}: not significantly worse"),  # noqa: E501 - one case, one line
        ({**NOT_WORSE, "margin": 0.02}, difference(FAIL, -0.01, 0.4, note="x"), f"{EVEN}: it may be worse by more than 2.00 points; x"),  # noqa: E501 - one case, one line
        (NOT_WORSE, NO_BASELINE, "no baseline is named"),
    ],
)  # fmt: skip
def test_a_gate_says_what_was_measured_and_needed(
    definition: Stated, found: GateCheck, sentence: str
) -> None:
    """Value, bound, need and n.

    With as many digits as it takes to tell number and threshold apart.
    """
    assert explain_gate(gate(definition, found), with_tasks=False) == [sentence]


ENOUGH = "the value is enough, but not sure: about {} samples like these would do"


@pytest.mark.parametrize(
    ("definition", "found", "advice"),
    [
        (LEAST, check(FAIL, 0.75, details=count(75)), ("80 of 100 would pass, 5 more "
"than there are")),
        (MORE, check(FAIL, 0.75, details=count(75)), "81 of 100 would pass, 6 more than there are"),
        ({**LEAST, "threshold": 0.07}, check(FAIL, 0.05, details=count(5)), "7 of 100 would pass, 2 more than there are"),  # noqa: E501 - one case, one line
        (LEAST, check(FAIL, 0.75), "`answerkey show RUN` says what stands behind the value"),
        (LOWER, check(FAIL, 0.77, value=0.85, details=count(85)), ENOUGH.format(246)),
        (LOWER, check(FAIL, 0.75, value=0.85), ENOUGH.format(400)),
        (LOWER, check(FAIL, 0.6, value=0.7), ("the value itself is not enough: more "
"samples will not help")),
        (LOWER, check(FAIL, None, value=0.85, note="x"), "`bound: value` needs no interval"),
        (EXISTS, check(FAIL, None), "`answerkey show RUN` says why it has none"),
        (SHARE, check(FAIL, 0.05), "`answerkey audit RUN` has them by reason, and what other rules would read in them"),  # noqa: E501 - one case, one line
        ({**NOT_WORSE, "baseline": "my runs/b"}, check(FAIL, -0.1), "`answerkey compare RUN --baseline 'my runs/b'` lists the samples that flipped"),  # noqa: E501 - one case, one line
        (NOT_WORSE, NO_BASELINE, "`answerkey show RUN --baseline BASELINE` decides it; this run may be the first baseline"),  # noqa: E501 - one case, one line
        (LEAST, check(PASS, 0.9), None),
    ],
)  # fmt: skip
def test_a_gate_says_what_to_do(
    run: Run, definition: Stated, found: GateCheck, advice: str | None
) -> None:
    """How much is missing, whether more samples would help, which command shows more."""
    assert advise_gate(gate(definition, found), run) == advice


def test_as_many_samples_as_advised_would_do() -> None:
    """The number that a bound's advice names is the smallest that Wilson's interval agrees with."""
    assert wilson(round(0.85 * 260), 260)[0] > 0.8 > wilson(round(0.85 * 220), 220)[0]
    assert wilson(209, 246)[0] == pytest.approx(0.8, abs=1e-3)


def test_many_values_are_summed_up() -> None:
    """Of many that pass the closest is named; of many that fail, the first and how many more."""
    good = [check(PASS, 0.8 + place / 100, group=f"g{place}") for place in range(1, 8)]
    closest = "all 7 values; closest: g1: Accuracy is 81.00 % (n 100), at least 80.00 %"
    assert explain_gate(gate(BY_GROUP, *good), with_tasks=False) == [closest]
    bad = [check(FAIL, 0.1, group=f"g{place}") for place in range(7)]
    sentences = explain_gate(gate(BY_GROUP, *bad, *good, status=FAIL), with_tasks=True)
    assert sentences[0] == "mcqa, g0: Accuracy is 10.00 % (n 100); needed: at least 80.00 %"
    assert sentences[5:] == ["and 2 more"]


def test_the_summary_shows_every_gate(run: Run) -> None:
    """One verdict for all, then each with its numbers; hidden characters are written out."""
    named = replace(gate(LEAST, check(FAIL, 0.75)), display_name="High\x1b[31m")
    found = with_gates(run, gate(LOWER, check(PASS, 0.81, value=0.85)), named)
    assert plain_text(draw_gates(found, 80)) == (
        "\n"
        "Gates  FAIL  1 of 2 passed, 1 failed\n"
        "  PASS  rule\n"
        "        Accuracy is 85.00 % (n 100), its 95 % interval begins at 81.00 %, at\n"
        "        least 80.00 %\n"
        "  FAIL  High\\x1b[31m (rule)\n"
        "        Accuracy is 75.00 % (n 100); needed: at least 80.00 %\n"
        "        `answerkey show RUN` says what stands behind the value\n"
    )
    assert judge_run(found) is FAIL
    assert (draw_gates(run, 80), judge_run(run)) == ([], None)


def test_json_holds_numbers_and_words(run: Run) -> None:
    """Whatever the summary says, and what it is made of."""
    (described,) = describe_run_gates(
        with_gates(run, gate(LEAST, check(FAIL, 0.75, interval=(0.6, 0.8))))
    )
    numbers = {"number": 0.75, "value": 0.75, "interval": (0.6, 0.8), "n": 100, "is_share": True}
    assert described == {
        "policy": "release",
        "rule": "rule",
        "status": "FAIL",
        "definition": LEAST,
        "display_name": "rule",
        "checks": [{"task": "mcqa", "name": "Accuracy", "status": "FAIL", **numbers}],
        "explanation": "Accuracy is 75.00 % (n 100); needed: at least 80.00 %.",
        "advice": "`answerkey show RUN` says what stands behind the value",
    }


@pytest.mark.parametrize(
    ("definition", "words"),
    [
        (LEAST, "Accuracy >= 0.8"),
        (LOWER, "lower bound of Accuracy >= 0.8"),
        (BY_GROUP, "Accuracy by subject >= 0.8"),
        (MACRO, "macro average of Accuracy by subject >= 0.8"),
        (EXISTS, "Accuracy has a value"),
        (SHARE, "INVALID share <= 2.00 %"),
        (NOT_WORSE, "the main value not significantly worse than a baseline"),
        (
            {**NOT_WORSE, "margin": 0.02, "baseline": "b", "metric": "M"},
            "M not by more than 0.02 worse than b",
        ),
    ],
)
def test_a_need_in_a_few_words(definition: Stated, words: str) -> None:
    """In the terms of the file; a field of a newer release is passed over."""
    assert read_definition({**definition, "later": 1}).need == words
