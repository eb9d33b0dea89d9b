from __future__ import annotations

from datetime import date

import pytest

from answerkey.errors import RunError, SpecError
from answerkey.exporters import check_form, describe_verdict, pick_task, to_json
from answerkey.runs import Run

VERDICT = {
    "status": "SCORED",
    "reason": None,
    "values": {"size": '"big"', "length": 2.0},
    "metadata": {"_": None},
    "excluded_by": None,
}


def test_values_stored_as_json_text_are_decoded() -> None:
    """Only fields named as encoded are; the placeholder of an empty struct is not shown."""
    assert describe_verdict(VERDICT, {"size"}) == {
        "status": "SCORED",
        "reason": None,
        "values": {"size": "big", "length": 2.0},
        "metadata": {},
    }


def test_an_action_that_excluded_the_sample_is_named() -> None:
    """`excluded_by` is there only when it says something."""
    assert "excluded_by" not in describe_verdict(VERDICT)
    assert describe_verdict({**VERDICT, "excluded_by": "drop"})["excluded_by"] == "drop"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"a": float("nan"), "b": [float("inf")]}, '{"a": null, "b": [null]}'),
        ({"day": date(2026, 1, 2)}, '{"day": "2026-01-02"}'),
        ({"é": "答"}, '{"é": "答"}'),
    ],
)
def test_json_is_always_valid(content: object, text: str) -> None:
    """Numbers that JSON lacks become null, dates their text, every script stays."""
    assert to_json(content) == text


@pytest.mark.parametrize(("form", "code"), [("jsnol", "E119"), ("xml", "E119")])
def test_forms_there_are_not(form: str, code: str) -> None:
    """A form of a later release and an unknown one are told apart."""
    with pytest.raises(SpecError) as caught:
        check_form(form)
    assert caught.value.code == code


def test_a_run_without_that_task() -> None:
    """The task must be named when there is not exactly one."""
    with pytest.raises(SpecError, match="the run has 0 tasks"):
        pick_task(Run({"status": "complete"}, {}), None)
    with pytest.raises(RunError, match="the run has no task `x`"):
        pick_task(Run({"status": "complete"}, {}), "x")
