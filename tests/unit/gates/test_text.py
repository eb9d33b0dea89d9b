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
from answerkey.runs import Run, describe_gates, start_run
from answerkey.text import plain_text
from answerkey.types import Gate, GateCheck, GateStatus

PASS, FAIL, OPEN = GateStatus.PASS, GateStatus.FAIL, GateStatus.NOT_DECIDED
Stated = Mapping[str, object]
LEAST = {"type": "threshold", "metric": "Accuracy", "operator": ">=", "threshold": 0.8}
MORE = {**LEAST, "operator": ">"}
LOWER = {**LEAST, "bound": "lower"}
UPPER = {**LEAST, "bound": "upper", "operator": "<="}
EXISTS = {"type": "exists", "metric": "Accuracy"}
NOT_WORSE = {"type": "not_worse"}
IS = "Accuracy is 85.00 % (n 100)"
INTERVAL = "95 % interval"
THERE = "in the baseline 80.00 %"
LOST = f"Accuracy is 75.00 %, {THERE}, -5.00 points, {INTERVAL} [-8.00, -2.00], p 0.00120 (n 100)"
EVEN = f"Accuracy is 79.00 %, {THERE}, -1.00 points, {INTERVAL} [-4.00, 2.00], p 0.40000 (n 100)"
NO_BASELINE = GateCheck("mcqa", "", OPEN, note="no baseline is given")


def gate(definition: Stated, *checks: GateCheck, **fields: Any) -> Gate:  # noqa: ANN401 - of Gate
    """Return a gate with the status of its first check."""
    status = fields.pop("status", checks[0].status)
    return Gate("release", "rule", status, definition, "rule", checks=checks, **fields)


def check(status: GateStatus, number: float | None, **fields: Any) -> GateCheck:  # noqa: ANN401 - of GateCheck
    """Return a check of a share of 100 samples."""
    details: dict[str, Any] = {"value": number, "n": 100, "is_share": True, **fields}
    return GateCheck("mcqa", details.pop("name", "Accuracy"), status, number, **details)


def difference(status: GateStatus, number: float, p: float, **fields: Any) -> GateCheck:  # noqa: ANN401 - same
    """Return a check against a baseline of 80 %."""
    details = {"baseline": "runs/base", "baseline_value": 0.8, "p_adjusted": p}
    interval = (number - 0.03, number + 0.03)
    fields_of_pair = {"value": 0.8 + number, "interval": interval, "details": details}
    return check(status, number, **fields_of_pair | fields)


@pytest.fixture(name="run")
def make_run() -> Run:
    """Return a complete run in memory, of one task."""
    about: dict[str, Any] = {"key": "demo", "display_name": "Demo", "tasks": []}
    return start_run(None, about, {}).finish("complete", {})


def with_gates(run: Run, *gates: Gate) -> Run:
    """Return a run that has these gates."""
    return replace(run, manifest={**run.manifest, "gates": describe_gates(gates)})


@pytest.mark.parametrize(
    ("definition", "result", "sentence"),
    [
        (LEAST, check(PASS, 0.85), f"{IS}, at least 80.00 %"),
        (LEAST, check(FAIL, 0.75), "Accuracy is 75.00 % (n 100); needed: at least 80.00 %"),
        (LEAST, check(FAIL, 0.799996), "Accuracy is 0.799996 (n 100); needed: at least 0.8"),
        (MORE, check(FAIL, 0.8), "Accuracy is 80.00 % (n 100); needed: more than 80.00 %"),
        (LOWER, check(FAIL, 0.77, value=0.85), f"{IS}, its {INTERVAL} begins at 77.00 %; needed: at least 80.00 %"),  # noqa: E501 - one case, one line
        (UPPER, check(PASS, 0.77, value=0.85), (f"{IS}, its {INTERVAL} ends at 77.00 "
"%, at most 80.00 %")),
        ({**LEAST, "threshold": 3}, check(PASS, 3.25, is_share=False), "Accuracy is 3.25 (n 100), at least 3"),  # noqa: E501 - one case, one line
        (LEAST, check(FAIL, None, note="no sample"), ("Accuracy: no sample; it must be "
"at least 80.00 %")),
        (LEAST, check(PASS, 0.85, repetition=2), f"run 2: {IS}, at least 80.00 %"),
        (EXISTS, check(PASS, 0.9), "Accuracy has a value: 90.00 % (n 100)"),
        (EXISTS, check(FAIL, None, note="0/0"), "Accuracy has no value: 0/0"),
        # Not to be significantly worse is not to be shown equal: the possible loss is named.
        (NOT_WORSE, difference(FAIL, -0.05, 0.0012), f"{LOST}: significantly worse (p below 0.05)"),
        (NOT_WORSE, difference(PASS, -0.01, 0.4), f"{EVEN}: not significantly worse, but a loss of up to 4.00 points is not ruled out"),  # noqa: E501 - one case, one line
        ({**NOT_WORSE, "margin": 0.02}, difference(FAIL, -0.01, 0.4, note="x"), f"{EVEN}: it may be worse by more than 2.00 points; x"),  # noqa: E501 - one case, one line
        (NOT_WORSE, NO_BASELINE, "no baseline is given"),
    ],
)  # fmt: skip
def test_a_gate_states_its_requirement(
    definition: Stated, result: GateCheck, sentence: str
) -> None:
    """Value, bound, need and n.

    With as many digits as it takes to tell number and threshold apart.
    """
    assert explain_gate(gate(definition, result), with_tasks=False) == [sentence]


@pytest.mark.parametrize(
    ("definition", "result", "advice"),
    [
        (LEAST, check(FAIL, 0.75), "`answerkey show RUN` shows what the value is based on"),
        ({**NOT_WORSE, "baseline": "my runs/b"}, check(FAIL, -0.1), "`answerkey compare RUN --baseline 'my runs/b'` lists the samples that flipped"),  # noqa: E501 - one case, one line
        (NOT_WORSE, NO_BASELINE, "`answerkey show RUN --baseline BASELINE` decides it; this run can be the first baseline"),  # noqa: E501 - one case, one line
        (LEAST, check(PASS, 0.9), None),
    ],
)  # fmt: skip
def test_a_failed_gate_gives_advice(
    run: Run, definition: Stated, result: GateCheck, advice: str | None
) -> None:
    """Which command shows more."""
    assert advise_gate(gate(definition, result), run) == advice


def test_many_values_are_summed_up() -> None:
    """The first of those that decide, and how many more."""
    bad = [check(FAIL, 0.1, repetition=place) for place in range(7)]
    sentences = explain_gate(gate(LEAST, *bad, check(PASS, 0.9)), with_tasks=True)
    assert sentences[0] == "mcqa, run 0: Accuracy is 10.00 % (n 100); needed: at least 80.00 %"
    assert sentences[5:] == ["and 2 more"]


def test_the_summary_shows_every_gate(run: Run) -> None:
    """One verdict for all, then each with its numbers; hidden characters are written out."""
    renamed = replace(gate(LEAST, check(FAIL, 0.75)), display_name="High\x1b[31m")
    result = with_gates(run, gate(LOWER, check(PASS, 0.81, value=0.85)), renamed)
    assert plain_text(draw_gates(result, 80)) == (
        "\n"
        "Gates  FAIL  1 of 2 passed, 1 failed\n"
        "  PASS  rule\n"
        "        Accuracy is 85.00 % (n 100), its 95 % interval begins at 81.00 %, at\n"
        "        least 80.00 %\n"
        "  FAIL  High\\x1b[31m (rule)\n"
        "        Accuracy is 75.00 % (n 100); needed: at least 80.00 %\n"
        "        `answerkey show RUN` shows what the value is based on\n"
    )
    assert judge_run(result) is FAIL
    assert (draw_gates(run, 80), judge_run(run)) == ([], None)


def test_json_holds_numbers_and_words(run: Run) -> None:
    """Whatever the summary says, and what it is made of."""
    failed = gate(LEAST, check(FAIL, 0.75, interval=(0.6, 0.8)))
    (described,) = describe_run_gates(with_gates(run, failed))
    numbers = {"number": 0.75, "value": 0.75, "interval": (0.6, 0.8), "n": 100, "is_share": True}
    assert described == {
        "policy": "release", "rule": "rule", "status": "FAIL", "definition": LEAST,
        "display_name": "rule",
        "checks": [{"task": "mcqa", "name": "Accuracy", "status": "FAIL", **numbers}],
        "explanation": "Accuracy is 75.00 % (n 100); needed: at least 80.00 %.",
        "advice": "`answerkey show RUN` shows what the value is based on",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("definition", "words"),
    [
        (LEAST, "Accuracy >= 0.8"),
        (LOWER, "lower bound of Accuracy >= 0.8"),
        (EXISTS, "Accuracy has a value"),
        (NOT_WORSE, "the main value not significantly worse than a baseline"),
        ({**NOT_WORSE, "margin": 0.02, "baseline": "b", "metric": "M"},
         "M not by more than 0.02 worse than b"),
    ],
)  # fmt: skip
def test_a_need_in_a_few_words(definition: Stated, words: str) -> None:
    """In the terms of the file; a field of a newer release is passed over."""
    assert read_definition({**definition, "later": 1}).need == words
