from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl
import pytest
from tests.samples import read_cases, record, samples_from_frame, score_table

from answerkey.errors import InternalError, SpecError
from answerkey.models.calls import MemoryLedger
from answerkey.models.model import LiveModel, open_model
from answerkey.scorers.model_judge import (
    ModelAsAJudge,
    ModelClassifier,
    ModelJudge,
    ModelLabeler,
    UnreadableVerdict,
    read_label,
    read_verdict,
)
from answerkey.testing import Behaviour, Reply, TestServer
from answerkey.testing.replies import Messages, read_prompt
from answerkey.types import (
    Completion,
    Completions,
    CompletionStatus,
    Request,
    Samples,
    Score,
    Scores,
)

CASES = read_cases(__file__)

FIVE = (1, 5)


@pytest.mark.parametrize(("text", "expected"), CASES["verdicts"])
def test_verdict_is_found(text: str, expected: list[object]) -> None:
    """A JSON object with a score is found bare, fenced or in prose."""
    assert list(read_verdict(text, FIVE)) == expected


@pytest.mark.parametrize(("text", "why"), CASES["no_verdicts"])
def test_no_score_is_guessed(text: str, why: str) -> None:
    """A text without exactly one score on the scale is refused with the reason.

    Nothing is clipped.
    """
    with pytest.raises(UnreadableVerdict) as caught:
        read_verdict(text, FIVE)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        *("{" * 5000, '{"a":' * 5000, "{'a':" * 3000, "`" * 5000, '{"score":' * 1000),
        *(
            "{'score', 4}",
            "{**known, 'score': 4}",
            "{'score': }",
            "{'score': f(4)}",
            "{'score': 4 4}",
        ),
    ],
)
def test_other_shapes_are_no_verdict(text: str) -> None:
    """Deeply nested and unclosed ones, a set, an unpacked dict, a call, broken syntax.

    Nothing of it is run.
    """
    with pytest.raises(UnreadableVerdict, match="no JSON object"):
        read_verdict(text, FIVE)


@pytest.mark.parametrize("confidence", [0, 1, 1.5, -0.1, 87, '"high"', "true", "null", "NaN"])
def test_confidence_lies_within_its_ends(confidence: object) -> None:
    """0 and 1 are confidences; what is no number between them is not kept, and spoils nothing."""
    kept = float(str(confidence)) if confidence in (0, 1) else None
    assert read_verdict(f'{{"score": 4, "confidence": {confidence}}}', FIVE) == (4.0, None, kept)


GOOD = '{"reasoning": "fine", "score": 4, "confidence": 0.5}'


@dataclass
class FakeModel:
    """Says what a function tells it to, and keeps what it was asked."""

    say: Callable[[str], Completion | str]
    name: str = "fake/judge"
    is_simulated: bool = False
    asked: list[list[dict[str, Any]]] = field(default_factory=list)

    def complete(self, questions: Sequence[Request]) -> list[Completion]:
        """Return one completion for each question."""
        self.asked += [[dict(message) for message in question.messages] for question in questions]
        replies = [self.say(str(question.messages[-1]["content"])) for question in questions]
        return [Completion(reply) if isinstance(reply, str) else reply for reply in replies]


def build_samples(*questions: str) -> Samples:
    """Return samples with these questions."""
    ids = pl.Series([str(position) for position in range(len(questions))])
    return samples_from_frame(pl.DataFrame({"question": questions}), ids)


def build_judge(**changes: Any) -> ModelAsAJudge:  # noqa: ANN401 - fields of the scorer
    """Return a judge on a scale from 1 to 5."""
    fields: dict[str, Any] = {
        "model_key": "j",
        "user_prompt": "Q: {{ sample.question }}\nA: {{ input_prompt }}",
        "score_min": 1,
        "score_max": 5,
    }
    return ModelAsAJudge(**(fields | changes))


def build_table(*completions: Completion) -> tuple[Samples, Completions]:
    """Return as many samples with the question `why`, and these completions."""
    samples = build_samples(*["why"] * len(completions))
    return samples, Completions.build(samples.ids, completions, source="recorded")


def score(
    say: Callable[[str], Completion | str],
    *completions: Completion,
    judge: ModelJudge | None = None,
) -> tuple[list[Score], FakeModel]:
    """Return the scores of completions to the question `why`, and the model that was asked."""
    model = FakeModel(say)
    scores: Scores = score_table(
        (judge or build_judge()).bind(model, key="quality"), *build_table(*completions)
    )
    return list(scores.rows()), model


def test_judge_scores_each_completion() -> None:
    """The judge's score is put between 0 and 1; what it said is kept beside it."""
    (first, second), model = score(lambda _: GOOD, Completion("because"), Completion("so"))
    assert first.values == {"score": 0.75}
    assert first.metadata == {
        "reasoning": "fine",
        "confidence": 0.5,
        "raw_score": 4.0,
        "judge_text": GOOD,
        "judge_error": None,
    }
    assert second.values == {"score": 0.75}
    assert len(model.asked) == 2


@pytest.mark.parametrize(("scale", "raw", "expected"), CASES["scales"])
def test_scores_are_normalised(scale: tuple[float, float], raw: float, expected: float) -> None:
    """The ends of the scale become 0 and 1."""
    judge = build_judge(score_min=scale[0], score_max=scale[1])
    (judged,), _ = score(lambda _: str(raw), Completion("because"), judge=judge)
    assert judged.values == {"score": expected}


def test_judge_is_told_the_form_of_its_answer() -> None:
    """The prompts come first, then the JSON that is wanted and the scale."""
    judge = build_judge(system_prompt="You judge {{ sample.question }}.")
    _, model = score(lambda _: GOOD, Completion("because"), judge=judge)
    assert model.asked == [
        [
            {"role": "system", "content": "You judge why."},
            {
                "role": "user",
                "content": "Q: why\nA: because\n\nAnswer with one JSON object and nothing else:\n"
                '{"reasoning": "<why, in a few sentences>", "score": <a number from 1 to 5>, '
                '"confidence": <how sure you are, a number from 0 to 1>}',
            },
        ]
    ]


@pytest.mark.parametrize(("template", "expected"), CASES["prompts"])
def test_prompts_see_the_whole_exchange(template: str, expected: str) -> None:
    """Prompts may use `sample`, `solver_output`, `model_output`, `messages` and `input_prompt`."""
    completion = Completion("because", prompt=[{"role": "user", "content": "hi"}])
    _, model = score(lambda _: GOOD, completion, judge=build_judge(user_prompt=template))
    assert str(model.asked[0][0]["content"]).startswith(f"{expected}\n\nAnswer with")


def test_unreadable_reply_fails_the_row() -> None:
    """The row is FAILED, with the judge's text and the reason.

    The others are scored.
    """

    def say(text: str) -> str:
        return '{"score": 9}' if "bad" in text else GOOD

    scores, model = score(say, Completion("good"), Completion("bad"))
    assert [row.status.value for row in scores] == ["SCORED", "FAILED"]
    assert [row.reason for row in scores] == [None, "JUDGE_UNREADABLE"]
    assert scores[1].values == {"score": None}
    assert scores[1].metadata["judge_text"] == '{"score": 9}'
    assert scores[1].metadata["judge_error"] == "the score is 9, and the scale goes from 1 to 5"
    assert len(model.asked) == 2


NO_REPLY = "the judge refused, or its reply has no text"


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Completion(None, CompletionStatus.REFUSED), NO_REPLY),
        (Completion(None, CompletionStatus.NO_TEXT), NO_REPLY),
        (Completion(" "), "the reply is empty"),
        (Completion("<think>hm</think>"), "the reply is empty"),
        (
            Completion('{"score', finish_reason="length"),
            (
                "the reply has no JSON object with a `score`: '{\"score'"
                " (the reply was cut off by the token limit)"
            ),
        ),
    ],
)
def test_reply_without_a_verdict_fails_the_row(reply: Completion, why: str) -> None:
    """A judge that refuses, says nothing or is cut off gives no score."""
    (row,), _ = score(lambda _: reply, Completion("because"))
    assert (row.reason, row.metadata["judge_error"]) == ("JUDGE_UNREADABLE", why)


def test_failed_calls_are_errors() -> None:
    """A call to the judge that failed is an ERROR, and so is a completion that was never given."""
    lost = Completion(None, CompletionStatus.ERROR, error="HTTP 500")
    scores, model = score(lambda _: lost, lost, Completion("because"))
    assert [(row.status.value, row.reason, row.metadata["judge_error"]) for row in scores] == [
        ("ERROR", "CALL_FAILED", None),
        ("ERROR", "JUDGE_CALL_FAILED", "HTTP 500"),
    ]
    assert len(model.asked) == 1


def test_refusals_and_silence_are_judged_as_they_are() -> None:
    """The judge sees the words of a refusal, and nothing where nothing was said."""
    refusal = Completion(
        None, CompletionStatus.REFUSED, reply={"role": "assistant", "refusal": "I won't."}
    )
    scores, model = score(lambda _: GOOD, refusal, Completion(None, CompletionStatus.NO_TEXT))
    assert [row.status.value for row in scores] == ["SCORED", "SCORED"]
    assert str(model.asked[0][0]["content"]).startswith("Q: why\nA: I won't.\n\nAnswer")
    assert str(model.asked[1][0]["content"]).startswith("Q: why\nA:\n\nAnswer")


def test_prompt_that_fails_on_a_row_fails_the_row() -> None:
    """A template that cannot be rendered fails its row, and no model is asked."""
    judge = build_judge(user_prompt="{{ (input_prompt | fromjson).x }}")
    rows, model = score(lambda _: GOOD, Completion('{"x": 1}'), Completion("no json"), judge=judge)
    assert [row.reason for row in rows] == [None, "TEMPLATE_FAILED"]
    assert rows[1].metadata["judge_error"]
    assert len(model.asked) == 1


def test_judge_of_samples_needs_no_completion() -> None:
    """A prompt that reads the sample alone judges the sample, whatever became of its call."""
    judge = build_judge(user_prompt="{{ sample.question }}", system_prompt="Judge.")
    assert not judge.needs_completion
    assert build_judge().needs_completion
    assert build_judge(
        user_prompt="{{ sample.question }}", system_prompt="{{ messages }}"
    ).needs_completion
    (row,), _ = score(lambda _: GOOD, Completion(None, CompletionStatus.ERROR), judge=judge)
    assert row.status.value == "SCORED"


def test_rows_are_checked_before_anybody_is_asked() -> None:
    """A column that does not exist is found at once, also in a prompt that reads the completion."""
    samples = build_samples("a", "b")
    problems, _ = build_judge(user_prompt="{{ sample.qestion }} {{ input_prompt }}").check_rows(
        samples
    )
    assert [(problem.error.code, problem.position) for problem in problems] == [("E206", 0)]
    assert "question" in str(problems[0].error)
    problems, _ = build_judge(user_prompt="{{ sample.question | fromjson }}").check_rows(samples)
    assert [(problem.error.code, problem.position, problem.reason) for problem in problems] == [
        ("E207", 0, "TEMPLATE_FAILED"),
        ("E207", 1, "TEMPLATE_FAILED"),
    ]
    assert build_judge(user_prompt="{{ input_prompt | fromjson }}").check_rows(samples) == ([], [])
    assert build_judge(user_prompt="{{ nobody }}").check_rows(samples) == ([], [])


@pytest.mark.parametrize(("low", "high"), [(1, 1), (2, 1), (0, float("nan")), (0, float("inf"))])
def test_scale_must_go_up(low: float, high: float) -> None:
    """A scale without room is an error at load."""
    _, errors = build_judge(score_min=low, score_max=high).compiled
    assert [(field, error.code) for field, error in errors] == [("score_max", "E108")]


def test_models_that_answer_from_choices_cannot_judge() -> None:
    """A built-in model that needs choices is refused.

    A constant may judge. Without a model it is our bug.
    """
    with pytest.raises(SpecError, match=r"error\[E301\]: model `builtin/random` .* cannot judge"):
        build_judge().bind(open_model("builtin/random"), key="quality")
    constant = open_model(f"builtin/constant?choice={json.dumps({'score': 5})}")
    (row,) = score_table(
        build_judge().bind(constant, key="quality"), *build_table(Completion("x"))
    ).rows()
    assert row.values == {"score": 1.0}
    with pytest.raises(InternalError, match=r"error\[E901\]"):
        score_table(build_judge(), *build_table(Completion("x")))


def test_names_are_those_of_the_scores() -> None:
    """The names that a file may use in metrics are those that the scores have."""
    judge = build_judge().bind(FakeModel(lambda _: GOOD), key="quality")
    scores = score_table(judge, *build_table(Completion("x")))
    assert scores.value_names == list(ModelAsAJudge.value_types)
    assert scores.metadata_names == list(ModelAsAJudge.metadata_types)
    unit = (0.0, 1.0)
    assert build_judge().scales == {"score": unit, "confidence": unit, "raw_score": (1, 5)}


# Judges that answer with a label.

LABELS = ("good", "N.A.", "'quoted'", "Bad one")


@pytest.mark.parametrize(("text", "label"), CASES["labels"])
def test_label_is_read(text: str, label: str) -> None:
    """White space, quotes and a final full stop are taken away, unless a label has them."""
    assert read_label(text, LABELS) == label


@pytest.mark.parametrize(("text", "why"), CASES["no_labels"])
def test_no_label_is_guessed(text: str, why: str) -> None:
    """Case matters, and a label within a sentence is none."""
    with pytest.raises(UnreadableVerdict) as caught:
        read_label(text, LABELS)
    assert why in str(caught.value)


def test_without_labels_any_text_is_one() -> None:
    """Of a text that is free, the same is taken away; nothing is no label."""
    assert read_label(' "off topic." ', ()) == "off topic"
    with pytest.raises(UnreadableVerdict, match="the reply is empty"):
        read_label('""', ())


def build_classifier(**changes: Any) -> ModelClassifier:  # noqa: ANN401 - fields of the scorer
    """Return a classifier with one label for right and two for wrong."""
    fields: dict[str, Any] = {"correct_labels": ("yes",), "incorrect_labels": ("no", "unsure")}
    return ModelClassifier("j", "{{ input_prompt }}", **(fields | changes))


def test_classifier_says_right_or_wrong() -> None:
    """The label decides `is_correct`, and is kept; a reply that is no label is never a class."""

    def say(text: str) -> str:
        return text.partition("\n")[0]

    replies = map(Completion, ("yes", "no.", "<think>yes</think>unsure", "Yes"))
    (right, wrong, unsure, lost), model = score(say, *replies, judge=build_classifier())
    assert [row.values["is_correct"] for row in (right, wrong, unsure)] == [1.0, 0.0, 0.0]
    assert [row.metadata["label"] for row in (right, wrong, unsure)] == ["yes", "no", "unsure"]
    assert unsure.metadata["judge_text"] == "<think>yes</think>unsure"
    assert (lost.status.value, lost.reason) == ("FAILED", "JUDGE_UNREADABLE")
    assert (lost.values, lost.metadata["label"]) == ({"is_correct": None}, None)
    assert str(lost.metadata["judge_error"]).startswith("the reply is none of the labels: ")
    assert model.asked[0] == [
        {"role": "system", "content": "You judge the output of another model."},
        {
            "role": "user",
            "content": 'yes\n\nAnswer with one of these labels and nothing else: "yes", "no", '
            '"unsure"',
        },
    ]


def test_labeler_gives_the_label() -> None:
    """The label is the value; without `valid_labels` any text is one, and the prompt names none."""
    closed = ModelLabeler("j", "{{ input_prompt }}", valid_labels=("sure", "unsure"))
    free = ModelLabeler("j", "{{ input_prompt }}", system_prompt=None)
    (first, lost), model = score(lambda _: "sure", Completion("x"), Completion("y"), judge=closed)
    assert (first.values, lost.values) == ({"label": "sure"}, {"label": "sure"})
    assert model.asked[0][0]["content"] == "You label the output of another model."
    (first,), model = score(lambda _: '"Off topic."', Completion("x"), judge=free)
    assert (first.values, first.metadata["judge_text"]) == ({"label": "Off topic"}, '"Off topic."')
    assert model.asked == [
        [{"role": "user", "content": "x\n\nAnswer with the label and nothing else."}]
    ]


def test_json_is_taken_off_only_where_it_was_asked_for() -> None:
    """With structured outputs `{"label": …}` is the label.

    Without them it is none of the labels.
    """
    for reply, status in (('{"label": "yes"}', "SCORED"), ("yes", "SCORED"), ('["yes"]', "FAILED")):
        (row,), _ = score(
            lambda _, reply=reply: reply,  # type: ignore[misc]  # the default binds the loop's value
            Completion("x"),
            judge=build_classifier(use_structured_outputs=True),
        )
        assert row.status.value == status
    (row,), _ = score(lambda _: '{"label": "yes"}', Completion("x"), judge=build_classifier())
    assert row.reason == "JUDGE_UNREADABLE"


@pytest.mark.parametrize(("changes", "errors"), CASES["labels_twice"])
def test_labels_must_tell_right_from_wrong(changes: Any, errors: list[str]) -> None:  # noqa: ANN401
    """Labels for both, each once."""
    _, problems = build_classifier(**changes).compiled
    assert [name for name, _ in problems] == errors
    for name, error in problems:
        assert error.code == "E108"
        assert error.message == f"`{name}` is empty, or one of its labels is listed twice"


def test_labels_of_a_labeler_are_checked() -> None:
    """No label twice; none at all is fine."""
    _, problems = ModelLabeler("j", "x", valid_labels=("a", "a")).compiled
    assert [name for name, _ in problems] == ["valid_labels"]
    assert ModelLabeler("j", "x").compiled[1] == []


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


def judge_texts(judge: ModelJudge, model: LiveModel, *texts: str) -> Scores:
    """Return the scores of these answers to one question."""
    samples = build_samples(*["capital?"] * len(texts))
    with closing(judge.bind(model, key="quality")) as bound:
        return score_table(bound, samples, record(samples, texts))


def judge_all(model: LiveModel) -> Scores:
    """Return the scores of three answers, on a scale from 0 to 10."""
    judge = ModelAsAJudge("judge", "The answer: {{ input_prompt }}", score_max=10.0)
    return judge_texts(judge, model, "Canberra", "Sydney", "Melbourne, I think")


def open_judge(server: TestServer, ledger: MemoryLedger | None = None) -> LiveModel:
    """Return the model behind the endpoint."""
    model = open_model(f"{server.url}#judge")
    assert isinstance(model, LiveModel)
    return replace(model, ledger=ledger or MemoryLedger())


def test_answers_are_judged_over_the_network(server: TestServer) -> None:
    """Three answers are three calls."""
    with open_judge(server) as model:
        result = list(judge_all(model).rows())
    assert [row.values["score"] for row in result] == [1.0, 0.0, 0.0]
    assert {row.metadata["reasoning"] for row in result} == {"checked"}
    assert server.asked.total == 3


def test_calls_are_kept_and_not_asked_twice(server: TestServer) -> None:
    """What the ledger knows is not asked again, and its calls are named after the scorer."""
    ledger = MemoryLedger()
    with open_judge(server, ledger) as model:
        first = judge_all(model)
        calls = server.asked.total
        assert judge_all(model).frame.equals(first.frame)
    assert server.asked.total == calls


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
    with TestServer('{"label": "right"}') as server, open_judge(server) as model:
        (row,) = judge_texts(judge, model, "Canberra").rows()
        (sent,) = server.asked.requests
    assert (row.values, row.metadata["label"]) == ({"is_correct": 1.0}, "right")
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
    with open_judge(server) as model:
        judge_texts(free, model, "Canberra")
    bodies = [request.body for request in server.asked.requests]
    assert not any(body and "response_format" in body for body in bodies)


def test_faults_change_nothing() -> None:
    """Trouble that passes changes no score."""
    faults = {"429_seconds": 0.3, "500": 0.2, "reset": 0.2, "bad_json": 0.2}
    with TestServer(judge_capital, Behaviour(faults=faults, faulty_attempts=2)) as server:
        with open_judge(server) as model:
            result = list(judge_all(model).rows())
        assert [row.values["score"] for row in result] == [1.0, 0.0, 0.0]
        assert server.asked.faults


def test_call_that_fails_for_good_is_an_error() -> None:
    """A request that the endpoint refuses is an ERROR with the endpoint's words, not a score."""
    behaviour = Behaviour(faults={"422": 1.0}, faulty_attempts=None)
    with TestServer(judge_capital, behaviour) as server, open_judge(server) as model:
        result = list(judge_all(model).rows())
    assert [row.status.value for row in result] == ["ERROR", "ERROR", "ERROR"]
    assert {row.reason for row in result} == {"JUDGE_CALL_FAILED"}
    assert "422" in str(result[0].metadata["judge_error"])
