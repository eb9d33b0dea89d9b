"""Laws of gates in words: what was measured and needed, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from answerkey.gates.rules import read_definition
from answerkey.gates.text import advise_gate, describe_run_gates, draw_gates, explain_gate, judge_run
from answerkey.metrics import wilson
from answerkey.runs import Run, describe_gates
from answerkey.text import plain_text
from answerkey.types import Gate, GateCheck, GateStatus

PASS, FAIL, OPEN = GateStatus.PASS, GateStatus.FAIL, GateStatus.NOT_DECIDED
AT_LEAST = {"type": "threshold", "metric": "Accuracy", "operator": ">=", "threshold": 0.8}
LOWER = {**AT_LEAST, "bound": "lower"}
LOST = (
    "Accuracy is 75.00 %, in the baseline 80.00 %, -5.00 points, 95 % interval [-8.00, -2.00],"
    " p 0.00120 (n 100)"
)
EVEN = (
    "Accuracy is 79.00 %, in the baseline 80.00 %, -1.00 points, 95 % interval [-4.00, 2.00],"
    " p 0.40000 (n 100)"
)


def make_gate(definition: Mapping[str, object], *checks: GateCheck, **fields: Any) -> Gate:  # noqa: ANN401 - of Gate
    """Return a gate that stands as its first check does."""
    status = checks[0].status if checks else OPEN
    return Gate("release", "rule", fields.pop("status", status), definition, "rule", checks=checks, **fields)


def make_check(status: GateStatus, number: float | None, **fields: Any) -> GateCheck:  # noqa: ANN401 - of GateCheck
    """Return a check of a share of 100 samples."""
    known: dict[str, Any] = {"value": number, "n": 100, "is_share": True, **fields}
    return GateCheck("mcqa", known.pop("name", "Accuracy"), status, number, **known)


def with_gates(run: Run, *gates: Gate) -> Run:
    """Return a run that has these gates."""
    return replace(run, manifest={**run.manifest, "gates": describe_gates(gates)})


@pytest.mark.parametrize(
    ("definition", "check", "sentence"),
    [
        (AT_LEAST, make_check(PASS, 0.85), "Accuracy is 85.00 % (n 100), at least 80.00 %"),
        (AT_LEAST, make_check(FAIL, 0.75), "Accuracy is 75.00 % (n 100); needed: at least 80.00 %"),
        (AT_LEAST, make_check(FAIL, 0.799996), "Accuracy is 79.9996 % (n 100); needed: at least 80.0000 %"),
        (
            {**AT_LEAST, "operator": ">"},
            make_check(FAIL, 0.8),
            "Accuracy is 80.00 % (n 100); needed: more than 80.00 %",
        ),
        (
            LOWER,
            make_check(FAIL, 0.77, value=0.85),
            "Accuracy is 85.00 % (n 100), its 95 % interval begins at 77.00 %; needed: at least 80.00 %",
        ),
        (
            {**AT_LEAST, "bound": "upper", "operator": "<="},
            make_check(PASS, 0.77, value=0.7),
            "Accuracy is 70.00 % (n 100), its 95 % interval ends at 77.00 %, at most 80.00 %",
        ),
        (
            {**AT_LEAST, "threshold": 3},
            make_check(PASS, 3.25, is_share=False),
            "Accuracy is 3.25 (n 100), at least 3",
        ),
        (
            AT_LEAST,
            make_check(FAIL, None, note="no sample counts"),
            "Accuracy: no sample counts; it must be at least 80.00 %",
        ),
        (
            {**AT_LEAST, "group_by": "subject"},
            make_check(FAIL, 0.5, group="law", repetition=2),
            "law, run 2: Accuracy is 50.00 % (n 100); needed: at least 80.00 %",
        ),
        (
            {**AT_LEAST, "group_by": "subject", "average": "macro"},
            make_check(PASS, 0.9),
            "the macro average of Accuracy by subject is 90.00 % (n 100), at least 80.00 %",
        ),
        (
            {"type": "exists", "metric": "Accuracy"},
            make_check(PASS, 0.9),
            "Accuracy has a value: 90.00 % (n 100)",
        ),
        (
            {"type": "exists", "metric": "Accuracy"},
            make_check(FAIL, None, note="0/0"),
            "Accuracy has no value: 0/0",
        ),
        (
            {"type": "share", "of": "invalid", "operator": "<=", "threshold": 0.02},
            make_check(FAIL, 0.05, name="INVALID share", details={"count": 5, "of": 100}),
            "INVALID share is 5.00 % (5 of 100); needed: at most 2.00 %",
        ),
    ],
)
def test_a_gate_says_what_was_measured_and_needed(
    definition: Mapping[str, object], check: GateCheck, sentence: str
) -> None:
    """Value, bound, need and n; with as many digits as it takes to tell number and threshold apart."""
    assert explain_gate(make_gate(definition, check), with_tasks=False) == [sentence]


def make_difference(status: GateStatus, number: float, p: float | None, **fields: Any) -> GateCheck:  # noqa: ANN401 - same
    """Return a check against a baseline of 80 %."""
    interval = (round(number - 0.03, 2), round(number + 0.03, 2))
    details = {"baseline": "runs/base", "baseline_value": 0.8, "p_adjusted": p}
    value = round(0.8 + number, 2)
    known = {"value": value, "interval": interval, "details": details, **fields}
    return make_check(status, number, **known)


@pytest.mark.parametrize(
    ("definition", "check", "sentence"),
    [
        (
            {},
            make_difference(FAIL, -0.05, 0.0012),
            f"{LOST}: significantly worse (p below 0.05)",
        ),
        (
            {},
            make_difference(PASS, -0.01, 0.4),
            f"{EVEN}: not significantly worse, but a loss of up to 4.00 points is not ruled out",
        ),
        (
            {"better": "lower"},
            make_difference(PASS, -0.05, 0.0012),
            f"{LOST}: not significantly worse",
        ),
        (
            {"margin": 0.02},
            make_difference(FAIL, -0.01, 0.4, note="the tasks differ"),
            f"{EVEN}: it may be worse by more than 2.00 points; the tasks differ",
        ),
        ({}, GateCheck("mcqa", "", OPEN, note="no baseline is named"), "no baseline is named"),
    ],
)
def test_a_comparison_says_what_it_shows_and_what_it_does_not(
    definition: Mapping[str, object], check: GateCheck, sentence: str
) -> None:
    """Not to be significantly worse is not to be shown equal: the possible loss is named."""
    gate = make_gate({"type": "not_worse", **definition}, check)
    assert explain_gate(gate, with_tasks=False) == [sentence]


@pytest.mark.parametrize(
    ("definition", "check", "advice"),
    [
        (
            AT_LEAST,
            make_check(FAIL, 0.75, details={"count": 75, "of": 100}),
            "80 of 100 would pass, 5 more than there are",
        ),
        (
            {**AT_LEAST, "operator": ">"},
            make_check(FAIL, 0.75, details={"count": 75, "of": 100}),
            "81 of 100 would pass, 6 more than there are",
        ),
        (
            {**AT_LEAST, "threshold": 0.07},
            make_check(FAIL, 0.05, details={"count": 5, "of": 100}),
            "7 of 100 would pass, 2 more than there are",
        ),
        (AT_LEAST, make_check(FAIL, 0.75), "`answerkey show RUN` says what stands behind the value"),
        (
            LOWER,
            make_check(FAIL, 0.77, value=0.85, details={"count": 85, "of": 100}),
            "the value is enough, but not sure: about 246 samples like these would do",
        ),
        (
            LOWER,
            make_check(FAIL, 0.75, value=0.85),
            "the value is enough, but not sure: about 400 samples like these would do",
        ),
        (
            LOWER,
            make_check(FAIL, 0.6, value=0.7),
            "the value itself is not enough: more samples will not help",
        ),
        (
            LOWER,
            make_check(FAIL, None, value=0.85, note="there is no interval: x"),
            "`bound: value` needs no interval",
        ),
        (
            {"type": "not_worse", "baseline": "my runs/base"},
            make_check(FAIL, -0.1),
            "`answerkey compare RUN --baseline 'my runs/base'` lists the samples that flipped",
        ),
        (
            {"type": "not_worse"},
            GateCheck("mcqa", "", OPEN, note="no baseline is named"),
            "`answerkey show RUN --baseline BASELINE` decides it; this run may be the first baseline",
        ),
        (AT_LEAST, make_check(PASS, 0.9), None),
    ],
)
def test_a_gate_says_what_to_do(
    complete: Run, definition: Mapping[str, object], check: GateCheck, advice: str | None
) -> None:
    """How much is missing, whether more samples would help, which command shows more."""
    assert advise_gate(make_gate(definition, check), complete) == advice


def test_as_many_samples_as_advised_would_do() -> None:
    """The number that a bound's advice names is the smallest that Wilson's interval agrees with."""
    assert wilson(round(0.85 * 260), 260)[0] > 0.8
    assert wilson(round(0.85 * 220), 220)[0] < 0.8
    assert wilson(209, 246)[0] == pytest.approx(0.8, abs=1e-3)


@pytest.fixture
def complete(make_run: Callable[..., Run]) -> Run:
    """Return a complete run in memory."""
    return make_run()


def test_many_values_are_summed_up(complete: Run) -> None:
    """Of many that pass the closest is named; of many that fail, the first and how many more."""
    definition = {**AT_LEAST, "group_by": "subject"}
    good = [make_check(PASS, 0.8 + place / 100, group=f"g{place}") for place in range(1, 8)]
    assert explain_gate(make_gate(definition, *good), with_tasks=False) == [
        "all 7 values; closest: g1: Accuracy is 81.00 % (n 100), at least 80.00 %"
    ]
    bad = [make_check(FAIL, 0.1, group=f"g{place}") for place in range(7)]
    sentences = explain_gate(make_gate(definition, *bad, *good, status=FAIL), with_tasks=True)
    assert sentences[0] == "mcqa, g0: Accuracy is 10.00 % (n 100); needed: at least 80.00 %"
    assert sentences[5:] == ["and 2 more"]
    assert complete.gates == ()


def test_the_summary_shows_every_gate(complete: Run) -> None:
    """One verdict for all, then each with its numbers; hidden characters are written out."""
    named = replace(make_gate(AT_LEAST, make_check(FAIL, 0.75)), display_name="High\x1b[31m")
    run = with_gates(complete, make_gate(LOWER, make_check(PASS, 0.81, value=0.9)), named)
    assert plain_text(draw_gates(run, 80)) == (
        "\n"
        "Gates  FAIL  1 of 2 passed, 1 failed\n"
        "  PASS  rule\n"
        "        Accuracy is 90.00 % (n 100), its 95 % interval begins at 81.00 %, at\n"
        "        least 80.00 %\n"
        "  FAIL  High\\x1b[31m (rule)\n"
        "        Accuracy is 75.00 % (n 100); needed: at least 80.00 %\n"
        "        `answerkey show RUN` says what stands behind the value\n"
    )
    assert judge_run(run) is FAIL


def test_a_run_without_gates_shows_none(complete: Run) -> None:
    """Nothing is said about gates where there are none."""
    assert draw_gates(complete, 80) == []
    assert judge_run(complete) is None


def test_json_holds_numbers_and_words(complete: Run) -> None:
    """Whatever the summary says, and what it is made of."""
    run = with_gates(complete, make_gate(AT_LEAST, make_check(FAIL, 0.75, interval=(0.6, 0.8))))
    (described,) = describe_run_gates(run)
    assert described == {
        "policy": "release",
        "rule": "rule",
        "status": "FAIL",
        "definition": AT_LEAST,
        "display_name": "rule",
        "checks": [
            {
                "task": "mcqa",
                "name": "Accuracy",
                "status": "FAIL",
                "number": 0.75,
                "value": 0.75,
                "interval": (0.6, 0.8),
                "n": 100,
                "is_share": True,
            }
        ],
        "explanation": "Accuracy is 75.00 % (n 100); needed: at least 80.00 %.",
        "advice": "`answerkey show RUN` says what stands behind the value",
    }


@pytest.mark.parametrize(
    ("definition", "words"),
    [
        (AT_LEAST, "Accuracy >= 0.8"),
        (LOWER, "lower bound of Accuracy >= 0.8"),
        ({**AT_LEAST, "group_by": "subject"}, "Accuracy by subject >= 0.8"),
        ({**AT_LEAST, "group_by": "s", "average": "macro"}, "macro average of Accuracy by s >= 0.8"),
        ({"type": "exists", "metric": "Accuracy"}, "Accuracy has a value"),
        (
            {"type": "share", "of": "invalid", "operator": "<=", "threshold": 0.02},
            "INVALID share <= 2.00 %",
        ),
        ({"type": "not_worse"}, "the main value not significantly worse than a baseline"),
        (
            {"type": "not_worse", "margin": 0.02, "baseline": "b", "metric": "M"},
            "M not by more than 0.02 worse than b",
        ),
    ],
)
def test_a_need_in_a_few_words(definition: Mapping[str, object], words: str) -> None:
    """In the terms of the file."""
    assert read_definition(definition).need == words
