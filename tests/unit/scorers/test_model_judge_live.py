"""The judge behind an endpoint: asked through the same client as any model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from tests.samples import record, samples_from_frame, score_table

from answerkey.models.calls import MemoryLedger
from answerkey.models.model import LiveModel, open_model
from answerkey.scorers.model_judge import ModelAsAJudge, ModelClassifier, ModelLabeler
from answerkey.testing import Behaviour, Reply, TestServer
from answerkey.testing.replies import Messages, read_prompt
from answerkey.types import Scores

ANSWERS = ["Canberra", "Sydney", "Melbourne, I think"]


def judge_capital(messages: Messages) -> str | Reply:
    """Judge as a good model would, in JSON."""
    prompt = read_prompt(messages)
    score = 10 if "Canberra" in prompt.partition("Answer with")[0] else 0
    return f'```json\n{{"reasoning": "checked", "score": {score}, "confidence": 1}}\n```'


@pytest.fixture
def server() -> Iterator[TestServer]:
    """Return an endpoint that judges capitals."""
    with TestServer(judge_capital) as running:
        yield running


def judge_all(model: LiveModel, **changes: Any) -> Scores:  # noqa: ANN401 - fields of the scorer
    """Return the scores of three answers, on a scale from 0 to 10."""
    judge = ModelAsAJudge("judge", "The answer: {{ input_prompt }}", score_max=10.0, **changes)
    samples = samples_from_frame(
        pl.DataFrame({"question": ["capital?"] * 3}), pl.Series(["a", "b", "c"])
    )
    table = record(samples, ANSWERS)
    bound = judge.bind(model, key="quality")
    try:
        return score_table(bound, samples, table)
    finally:
        bound.close()


def open_judge(server: TestServer, ledger: MemoryLedger | None = None) -> LiveModel:
    """Return the model behind the endpoint."""
    model = open_model(f"{server.url}#judge")
    assert isinstance(model, LiveModel)
    return replace(model, ledger=ledger or MemoryLedger())


def test_answers_are_judged_over_the_network(server: TestServer) -> None:
    """Three answers are three calls."""
    with open_judge(server) as model:
        result = list(judge_all(model).rows())
    assert [one.values["score"] for one in result] == [1.0, 0.0, 0.0]
    assert {one.metadata["reasoning"] for one in result} == {"checked"}
    assert server.asked.total == 3


def test_calls_are_kept_and_not_asked_twice(server: TestServer) -> None:
    """What the ledger knows is not asked again, and its calls are named after the scorer."""
    ledger = MemoryLedger()
    with open_judge(server, ledger) as model:
        first = judge_all(model)
        asked = server.asked.total
        assert judge_all(model).frame.equals(first.frame)
    assert server.asked.total == asked


def test_enum_of_the_labels_is_asked_for() -> None:
    """The request has the labels as an enum, byte for byte.

    The JSON around the reply is taken off.
    """
    judge = ModelClassifier(
        "judge",
        "A: {{ input_prompt }}",
        use_structured_outputs=True,
        correct_labels=("right",),
        incorrect_labels=("wrong",),
    )
    samples = samples_from_frame(pl.DataFrame({"question": ["capital?"]}), pl.Series(["a"]))
    table = record(samples, ["Canberra"])
    with TestServer('{"label": "right"}') as server, open_judge(server) as model:
        bound = judge.bind(model, key="quality")
        (found,) = score_table(bound, samples, table).rows()
        bound.close()
        (sent,) = server.asked.requests
    assert (found.values, found.metadata["label"]) == ({"is_correct": 1.0}, "right")
    assert sent.body == {
        "model": "judge",
        "messages": [
            {"role": "system", "content": "You judge the output of another model."},
            {
                "role": "user",
                "content": "A: Canberra\n\nAnswer with one of these labels and nothing else:"
                ' "right", "wrong"',
            },
        ],
        "response_format": {
            "type": "json_schema",
            "json_schema": {
                "name": "answer",
                "schema": {
                    "type": "object",
                    "properties": {"label": {"type": "string", "enum": ["right", "wrong"]}},
                    "required": ["label"],
                    "additionalProperties": False,
                },
                "strict": True,
            },
        },
    }


def test_label_of_any_kind_has_no_enum(server: TestServer) -> None:
    """Without `valid_labels` the shape asks for text; by default no shape is asked for."""
    free = ModelLabeler("judge", "{{ input_prompt }}")
    assert free.schema["properties"] == {"label": {"type": "string"}}
    samples = samples_from_frame(pl.DataFrame({"question": ["capital?"]}), pl.Series(["a"]))
    table = record(samples, ["Canberra"])
    with open_judge(server) as model:
        score_table(free.bind(model, key="tone"), samples, table)
    assert not any(
        request.body and "response_format" in request.body for request in server.asked.requests
    )


def test_faults_change_nothing() -> None:
    """Trouble that passes changes no score."""
    faults = {"429_seconds": 0.3, "500": 0.2, "reset": 0.2, "bad_json": 0.2}
    with TestServer(judge_capital, Behaviour(faults=faults, faulty_attempts=2)) as server:
        with open_judge(server) as model:
            result = list(judge_all(model).rows())
        assert [one.values["score"] for one in result] == [1.0, 0.0, 0.0]
        assert server.asked.faults


def test_call_that_fails_for_good_is_an_error() -> None:
    """A request that the endpoint refuses is an ERROR with the endpoint's words, not a score."""
    behaviour = Behaviour(faults={"422": 1.0}, faulty_attempts=None)
    with TestServer(judge_capital, behaviour) as server, open_judge(server) as model:
        result = list(judge_all(model).rows())
    assert [one.status.value for one in result] == ["ERROR", "ERROR", "ERROR"]
    assert {one.reason for one in result} == {"JUDGE_CALL_FAILED"}
    assert "422" in str(result[0].metadata["judge_error"])
