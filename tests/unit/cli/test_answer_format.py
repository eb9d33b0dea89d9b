"""Runs whose replies are constrained or begun: from the file to summary, report and comparison."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from answerkey.reports.overview import build_overview, dump
from answerkey.runs import load_run
from answerkey.testing import TestServer

from .conftest import QUIZ, SCORER, Call, write_rows

ROWS = [
    {
        "question": "one",
        "answer": "B",
        "options": ["no", "right", "never"],
        "choices": ["A", "B", "C"],
    },
    {
        "question": "two",
        "answer": "D",
        "options": ["no", "nay", "none", "right"],
        "choices": [*"ABCD"],
    },
]
OWN = {**SCORER, "choices": "{{ sample.choices }}"}
MARK = "answer format  replies are constrained to the sample's choices\n"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestServer]:
    """Return a server that is sure of D, or else of B.

    The task asks it through the name of vLLM, too.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_task()
    write_rows(Path("rows.jsonl"), ROWS)
    with TestServer("I am torn between A, B and D.") as running:
        monkeypatch.setenv("VLLM_BASE_URL", running.url)
        yield running


def write_task(**changes: object) -> None:
    """Write the task file, with changes to its definition."""
    definition: Mapping[str, Any] = QUIZ["definition"]  # type: ignore[assignment]  # an object
    told = {**QUIZ, "definition": {**definition, "scorers": [OWN], **changes}}
    Path("task.yaml").write_text(json.dumps(told), encoding="utf-8")


def name(server: TestServer, query: str = "?answer_format=choice") -> tuple[str, ...]:
    """Return the arguments of a run of the task."""
    return ("task.yaml", "--dataset", "rows.jsonl", "--model", f"{server.url}{query}#m")


def list_choices(server: TestServer) -> list[list[str]]:
    """Return the choices that each request allowed."""
    return [
        one.body["response_format"]["json_schema"]["schema"]["properties"]["answer"]["enum"]
        for one in server.asked.requests
        if one.body is not None
    ]


def test_every_rule_sees_the_bare_letter(call: Call, server: TestServer) -> None:
    """The first character is no `{`; summary, `run.json`, `--json` and Markdown name the format."""
    done = call("run", *name(server), "--out", "forced", "--cache-policy", "update")
    assert (done.code, MARK in done.out, "Accuracy 100.00 %" in done.out) == (0, True, True)
    assert sorted(list_choices(server)) == [["A", "B", "C"], ["A", "B", "C", "D"]]
    assert call("show", "forced", "--json").json["tasks"][0]["model"]["answer_format"] == "choice"
    assert (
        json.loads(Path("forced/run.json").read_text())["tasks"][0]["model"]["answer_format"]
        == "choice"
    )
    shown = call("show", "forced", "--format", "markdown").out
    assert " answer format: replies are constrained to the sample's choices. 2 samples" in shown
    assert dump(build_overview(load_run("forced")))["tasks"][0]["forced"] == {
        "answer format": MARK[15:-1]
    }
    kept = load_run("forced").tasks["quiz"].completions
    assert (kept["completion"].to_list(), kept["raw"][0]) == (["B", "D"], '{"answer": "B"}')
    reuse = ("--cache-policy", "reuse", "--dry-run", "--json")
    again = call("run", *name(server), *reuse).json["dry_run"]["tasks"][0]
    assert (again["calls"], again["cached"]) == (0, 2)


def test_the_choices_are_those_that_are_shown(call: Call, server: TestServer) -> None:
    """In every order, a sample's reply is one of its own labels."""
    order = {"options": "{{ sample.options }}", "orders": "rotations"}
    prompt = [{"role": "user", "content": "{{ sample.question }} {{ sample.options | join(' ') }}"}]
    builder = {"type": "chat_completion", "input_messages": prompt}
    write_task(choice_order=order, solver={"type": "single_turn_solver", "input_builder": builder})
    assert call("run", *name(server), "--out", "orders").code == 0
    assert sorted(map(len, list_choices(server))) == [3, 3, 3, 4, 4, 4, 4]


def test_a_begun_reply_is_told_and_compared(call: Call, server: TestServer) -> None:
    """The summary quotes the prefill; runs that differ in it, or in the format, give a warning."""
    server.change("B")
    for folder, model in (
        ("plain", "vllm/m"),
        ("begun", "vllm/m?prefill=Answer:"),
        ("forced", "vllm/m?answer_format=choice"),
    ):
        words = ("task.yaml", "--dataset", "rows.jsonl", "--model", model, "--out", folder)
        done = call("run", *words, "--summary", f"{folder}.md")
        assert done.code == 0
        assert ("prefill  'Answer:'\n" in done.out) == (folder == "begun")
        page = Path(f"{folder}.md").read_text(encoding="utf-8")
        assert (" prefill: 'Answer\\:'. " in page) == (folder == "begun")
    warned = call("compare", "begun", "plain").err
    assert (
        "warning: `begun` and `plain` differ in their prefill: a difference may be of that"
        in warned
    )
    warned = call("compare", "begun", "forced").err
    assert "`begun` and `forced` differ in their answer format and prefill: a difference" in warned
    assert "differ in" not in call("compare", "plain", "plain").err
    assert "VLLM" not in Path("begun/run.json").read_text()


def test_a_file_says_it_and_a_run_goes_on_with_it(call: Call, server: TestServer) -> None:
    """`generation` of a task specification; what was asked before the stop is not asked again."""
    Path("run.yaml").write_text(
        "tasks: [{$ref: task.yaml}]\n"
        "datasets: [{key: rows, display_name: Rows, file_path: rows.jsonl}]\n"
        "evaluation:\n"
        "  key: e\n"
        "  display_name: E\n"
        "  task_specifications:\n"
        "    - task_key: quiz\n"
        f"      model_key: '{server.url}#m'\n"
        "      generation: {answer_format: choice}\n",
        encoding="utf-8",
    )
    assert call("run", "run.yaml", "--out", "half", "--max-calls", "1").code == 3
    done = call("resume", "half")
    assert (done.code, MARK in done.out, server.asked.total) == (0, True, 2)
    assert sorted(list_choices(server)) == [["A", "B", "C"], ["A", "B", "C", "D"]]


JUDGE = {
    "type": "model_as_a_judge_scorer",
    "model_key": "vllm/m?answer_format=choice",
    "user_prompt": "{{ input_prompt }}",
    "score_min": 0,
    "score_max": 1,
}
EQUAL = {"type": "string_equals", "ground_truth": "{{ sample.answer }}"}
FALLBACK = {
    **OWN,
    "extraction": {"rule": "stated_answer", "fallback": "vllm/m?answer_format=choice"},
}


@pytest.mark.parametrize(
    ("query", "scorer", "told"),
    [
        (
            "?answer_format=choice",
            EQUAL,
            (
                "E301]: model `{model}` answers from the `choices` of a scorer, and no "
                "scorer of the task has"
            ),
        ),
        (
            "?answer_format=choice",
            EQUAL,
            "add a scorer `string_equals_mcqa`, or leave `answer_format` out",
        ),
        (
            "",
            JUDGE,
            (
                "E301]: model `vllm/m?answer_format=choice` answers multiple-choice "
                "questions and cannot"
            ),
        ),
        ("", FALLBACK, "name a live model without `answer_format` in `fallback`"),
        ("?prefill=x", OWN, "E108]: model `{model}`: the API `chat` does not take `prefill`"),
    ],
)
def test_what_cannot_be_is_told_by_check(
    call: Call, server: TestServer, query: str, scorer: Mapping[str, Any], told: str
) -> None:
    """Before anything is asked; a judge is not constrained to choices."""
    write_task(scorers=[scorer])
    words = name(server, query)
    found = call("check", *words)
    assert found.code == 2
    assert told.format(model=words[-1]) in " ".join(found.out.split())
    assert server.asked.total == 0
