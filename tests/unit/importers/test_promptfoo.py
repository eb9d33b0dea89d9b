"""Laws of logs of promptfoo and of evidence logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.unit.importers.conftest import WHICH

import answerkey as ak
from answerkey.errors import Problems

if TYPE_CHECKING:
    from tests.unit.importers.conftest import Desk


def row(number: int = 0, text: str = "B", **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a row of promptfoo's results."""
    variables = {"question": "Which?", "options": ["one", "two"], "answer": "B", "level": 3}
    return {
        "promptIdx": 0,
        "testIdx": number,
        "provider": {"id": "openai:some-model", "label": ""},
        "prompt": {"raw": "Which?\nA. one\nB. two", "label": "plain"},
        "vars": variables,
        "testCase": {"vars": variables, "assert": [{"type": "contains", "value": "B"}]},
        "response": {
            "output": text,
            "tokenUsage": {"prompt": 9, "completion": 1},
            "finishReason": "stop",
        },
        "success": text == "B",
        "score": 1,
        "namedScores": {"style": 0.0},
        "failureReason": 0,
        "latencyMs": 500,
        **fields,
    }


def whole(*rows: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON of an evaluation."""
    results = {"version": 3, "prompts": [], "results": list(rows), "stats": {"successes": 1}}
    whole = {"evalId": "eval-x", "results": results, "config": {"providers": []}}
    return {**whole, "shareableUrl": None}


def test_a_row_is_a_test_with_its_variables(desk: Desk) -> None:
    """Success is the verdict."""
    result = desk.bring(desk.json("res.json", whole(row(), row(1, "A", success=False))))
    about = result.tasks[0].description
    assert (result.kind, about.model, about.score) == ("promptfoo", "openai:some-model", "success")
    assert desk.asked()[0] == {"sample_id": "0", **WHICH, "original": {"level": 3}}
    columns = ("completion", "imported_score", "latency", "prompt_tokens", "finish_reason")
    assert desk.said(*columns) == [("B", 1.0, 0.5, 9, "stop"), ("A", 0.0, 0.5, 9, "stop")]
    result = desk.bring(desk.lines("res.jsonl", [row(), row(1, vars={"text": "Other?"})]))
    assert (result.kind, result.samples) == ("promptfoo", 2)


def test_an_assertion_says_what_is_right_where_no_variable_does(desk: Desk) -> None:
    """The strictest counts; the options stand in the prompt."""
    test = row(vars={"text": "Which?"})
    test["testCase"] = {
        "assert": [{"type": "icontains", "value": "a"}, {"type": "equals", "value": "two"}]
    }
    desk.bring(desk.json("res.json", whole(test)))
    assert desk.asked("answer", "options") == [("B", ["one", "two"])]


def test_chats_are_messages_and_errors_are_no_verdicts(desk: Desk) -> None:
    """A call that failed is an ERROR."""
    text = '[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Q"}]'
    chat = row(prompt={"raw": text, "label": "plain"})
    error = {"error": "HTTP 500"}
    failed = row(1, **error, failureReason=2, response=error, success=False)
    desk.bring(desk.json("res.json", whole(chat, failed)))
    assert desk.said("prompt")[0][0]["role"] == "system"
    failure = desk.said("completion_status", "error", "imported_score")[1]
    assert failure == ("ERROR", "HTTP 500", None)


def test_of_several_providers_one_is_taken_and_the_others_are_named(desk: Desk) -> None:
    """`--column provider=NAME` takes another."""
    log = desk.json("res.json", whole(row(), row(0, "A", provider={"id": "other"}, promptIdx=1)))
    assert desk.bring(log).notices[0].message == (
        "the rows of openai:some-model with prompt plain are used; others: `other "
        "with prompt plain`"
    )
    desk.bring(log, columns={"provider": "other"})
    assert desk.said("completion") == ["A"]
    desk.refuse("no row has the requested provider", log, columns={"provider": "nobody"})


def test_a_named_score_can_be_the_verdict_and_broken_rows_are_named(desk: Desk) -> None:
    """With `--score`."""
    styled = desk.bring(desk.json("res.json", whole(row())), score="style")
    assert styled.tasks[0].imported_mean == 0.0
    log = desk.json("res.json", whole(row(), {"promptIdx": 0}))
    desk.refuse("the row has no `testIdx`", log, "promptfoo")


def test_the_first_prompt_is_that_of_the_evaluation_and_repeats_are_trials(desk: Desk) -> None:
    """Rows come in the order of arrival."""
    later = {"promptIdx": 1, "prompt": {"raw": "Pick.", "label": "later"}}
    rows = [
        row(number, text, vars={"text": f"Which {number // 2}?"}, **more)
        for number, text in ((3, "A"), (1, "B"), (0, "A"), (2, "B"))
        for more in (later, {})
    ]
    result = desk.bring(desk.json("res.json", whole(*rows)))
    assert (result.samples, result.tasks[0].num_trials) == (2, 2)
    assert desk.said("sample_id", "trial", "completion") == [
        *(("1", 0, "B"), ("1", 1, "A"), ("0", 0, "A"), ("0", 1, "B"))
    ]
    assert "the rows of openai:some-model with prompt plain are used" in result.notices[0].message
    apart = [row(number, vars={"text": f"Which {number % 2}?"}) for number in range(4)]
    assert desk.bring(desk.json("apart.json", whole(*apart))).samples == 4


def test_a_truth_that_nothing_states_is_an_error_with_the_variables(desk: Desk) -> None:
    """A flag says which variable it is; `letter` is known."""
    test = row(vars={"text": "Which?", "solution": "B"})
    test["testCase"] = {"assert": [{"type": "javascript", "value": "1"}]}
    log = desk.json("res.json", whole(test))
    error = desk.refuse("1 tests have no truth", log)
    assert str(error.hint).endswith("variables: `text`, `solution`")
    for role in ("answer", "truth"):
        desk.bring(log, columns={role: "solution"})
        assert desk.asked("answer") == ["B"]
    test["vars"] = {"text": "Which?", "letter": "B"}
    desk.bring(desk.json("res.json", whole(test)))
    assert desk.asked("answer") == ["B"]


CSV = """\
Description,text,letter,"[a:x] {{text}}\nA. one\nB. two",Status,Score,[b:y] Pick.,Status,Score
Row #1,Which?,B,"The answer, B",PASS,1.00,A,FAIL,0.00
Row #2,Other?,A,timeout,ERROR,0.00,A,PASS,1.00
"""


def test_csv_and_yaml_say_the_same_as_json(desk: Desk) -> None:
    """Each prompt has columns of its own in CSV."""
    result = desk.bring(desk.write("res.csv", CSV), columns={"provider": "b:y"})
    assert (result.kind, result.tasks[0].description.model) == ("promptfoo", "b:y")
    replies = desk.said("sample_id", "completion", "imported_score")
    assert replies == [("0", "A", 0.0), ("1", "A", 1.0)]
    desk.bring(desk.write("res.csv", CSV))
    assert desk.said("completion", "completion_status", "imported_score", "error") == [
        *(("The answer, B", "OK", 1.0, None), (None, "ERROR", None, "timeout"))
    ]
    content = whole(row(), row(1, "A", vars={"text": "Other?"}))
    assert desk.bring(desk.json("res.json", content)).samples == 2
    tables = desk.asked(), desk.said()
    text = "evalId: eval-x\nresults: " + json.dumps(content["results"])
    assert desk.bring(desk.write("res.yaml", text)).kind == "promptfoo"
    assert (desk.asked(), desk.said()) == tables
    desk.refuse("not valid YAML", desk.write("bad.yaml", "evalId: x\nresults: ["))
    desk.refuse("line 5", desk.write("bad.csv", CSV.replace("A,PASS,1.00\n", '"A')))


# Evidence logs.

#: Logs that answerkey wrote while it had `export --to evidence`.
LOGS = Path(__file__).parent / "logs"


def test_verdicts_trials_and_failed_calls_come_back(desk: Desk) -> None:
    """An error of the solver in the log is an ERROR; the scorer's verdicts are compared."""
    imported = desk.bring(LOGS / "evidence-quiz.json")
    assert (imported.kind, imported.samples) == ("evidence", 6)
    assert imported.tasks[0].description.score == "string_equals_mcqa.is_correct"
    tasks = ak.run(desk.out, out=desk.folder / "run").tasks
    assert [task.totals["imported"]["compared"] for task in tasks.values()] == [6]
    assert desk.bring(LOGS / "evidence-trials.json").tasks[0].num_trials == 2
    assert desk.bring(LOGS / "evidence-failed.json").tasks[0].statuses == {"ERROR": 1, "OK": 1}


def platform_log(**fields: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a log as the platform writes it, without a task that could be used."""
    noted = {"predicted_choice": "B", "ground_truth_choice": "B", "choices": ["A", "B"]}
    scorer = {"scorer_key": "mcqa", "scorer_purpose": "score"}
    scores = [{**scorer, "values": {"is_correct": 1.0}, "metadata": noted}]
    message = {"role": "assistant", "content": "B", "refusal": None}
    trial = {
        "index": 0,
        "sample_id": "1",
        "sample": {"data": {"question": "Which?", "answer": "B"}},
        "solver": {"output": {"choices": [{"message": message}]}},
        "scores": scores,
        "errors": [],
    }
    sample = {
        "sample_id": "1",
        "trials": [trial],
        "scores": scores,
        "action_records": [],
        "errors": [],
    }
    return {
        "format_version": "v1",
        "status": "success",
        "evidence": {"metrics": [], "samples": [sample]},
        "specification": {},
        **fields,
    }


def test_a_log_without_a_task_gets_one_that_fits(desk: Desk) -> None:
    """Choices and truths are those that the scorer noted.

    `NaN`, which the platform writes, is null.
    """
    text = json.dumps(platform_log()).replace(
        '"metrics": []', '"metrics": [{"values": {"x": NaN}}]'
    )
    result = desk.bring(desk.write("log.json", text))
    assert (result.kind, result.tasks[0].imported_mean) == ("evidence", 1.0)
    assert desk.asked("choices")[0] == ["A", "B"]
    assert ak.run(desk.out, out=desk.folder / "run").tasks


def test_samples_that_are_broken_are_named_and_a_cut_log_too(desk: Desk) -> None:
    """With the reason that the log gives."""
    log = platform_log()
    errors = [{"error_type": "X", "message": "gone", "stage": "dataset"}]
    log["evidence"]["samples"] += [{"sample_id": "2", "trials": [], "errors": errors}, 3]
    error = desk.refuse("the sample has no trials: gone", desk.json("log.json", log))
    assert isinstance(error, Problems)
    assert error.errors[1].message.endswith("the sample has no trials: no reason is given")
    text = json.dumps(platform_log())
    cut = desk.write("cut.json", text[: text.index('"action_records"')])
    desk.refuse("not valid JSON", cut, "evidence")


def test_half_a_surrogate_pair_anywhere_is_no_obstacle(desk: Desk) -> None:
    """Names, descriptions and rows with one are written with U+FFFD in its place, and run."""
    task = {"key": "t", "display_name": "\ud800"}
    log = platform_log(specification={"task": task, "model": {"name": "m\ud800"}})
    log["evidence"]["samples"][0]["trials"][0]["sample"]["data"]["question"] = "\ud800"
    desk.bring(desk.json("log.json", log))
    assert json.loads(desk.text("import.json"))["tasks"][0]["model"] == "m\ud800"
    assert ak.run(desk.out, out=desk.folder / "run").metrics["Accuracy"].value == 1.0
