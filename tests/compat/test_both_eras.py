"""One task in the spelling of both eras gives the same numbers; other names are refused by name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.projects import describe_solver

import answerkey
from answerkey.cli import main
from answerkey.testing import TestServer

BUNDLES = Path(__file__).parent / "bundles"
#: By question, what the model says.
REPLIES = {"Largest planet?": "B", "A metal?": "B", "Too long a story?": "A"}


def reply(messages: Sequence[Mapping[str, object]]) -> str:
    """Answer the question; as a judge, say how long the prompt is."""
    prompt = str(messages[-1]["content"])
    if prompt in REPLIES:
        return REPLIES[prompt]
    judged = prompt.partition("\n\nAnswer with")[0]
    return json.dumps({"score": len(judged) / 100, "reasoning": judged, "confidence": 1})


def run_era(
    era: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the rows of scores, and the metrics by name."""
    with TestServer(reply) as server:
        monkeypatch.setenv("ENDPOINT", f"{server.url}/chat/completions")
        run = answerkey.run(BUNDLES / f"both-eras-{era}", out=folder / era, trust_code=True)
    task = run.tasks["t"]
    metrics = task.metrics.items()
    values = {name: (metric.value, metric.n, metric.n_excluded) for name, metric in metrics}
    return task.scores.to_dicts(), values


def test_both_eras_give_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snippet, `string_equals.value`, a judge's prompt and an action's filter, in the names of
    each era.
    """
    seed = run_era("seed", tmp_path, monkeypatch)
    assert seed == run_era("later", tmp_path, monkeypatch)
    rows, metrics = seed
    assert [row["string_equals"]["excluded_by"] for row in rows] == [None, None, "long"]
    assert [row["python"]["status"] for row in rows] == ["SCORED"] * 3
    assert [row["model_as_a_judge_scorer"]["metadata"]["reasoning"] for row in rows] == [
        f"{question} {reply}" for question, reply in REPLIES.items()
    ]
    assert {name: value[0] for name, value in metrics.items()} == {
        "good_mean": 0.5,
        "Accuracy": 0.5,
        "Mean Score": pytest.approx(0.135),
    }


def write_recorded(folder: Path, **definition: object) -> Path:
    """Write a task on two rows with recorded texts, with this in its definition.

    Return the file.
    """
    solver = {"type": "pass_through_solver", "trace_column": "said"}
    whole = {"dataset": {"key": "q"}, "solver": solver, **definition}
    rows = [{"answer": "A", "said": "A"}, {"answer": "B", "said": "A"}]
    task = {"key": "t", "display_name": "T", "description": "Recorded texts.", "definition": whole}
    dataset = {"key": "q", "display_name": "Q", "source": {"type": "inline", "rows": rows}}
    file = folder / "run.yaml"
    file.write_text(json.dumps({"datasets": [dataset], "tasks": [task]}))
    return file


@pytest.mark.parametrize(
    ("value", "accuracy"),
    [
        ("{{ solver_output.trace.get_last_assistant_text() }}", 0.5),
        ("{{ solver_output.trace['items'][-1].content }}", 0.5),
        ("{{ solver_output.trace.items[0].content | lower }}", 0.0),
        ("{{ solver_output.raw_outputs[-1].choices[0].message.content }}", 0.5),
        ("{{ solver_output.model_outputs[-1].choices[0].message.content }}", 0.5),
        ("{{ (solver_output.trace.turns | first).assistant_messages[0].content }}", 0.5),
        (
            (
                "{{ solver_output.trace.get_last_user_text() or "
                "solver_output.trace.get_first_system_prompt() }}"
            ),
            0.0,
        ),
        (
            (
                "{% for one in solver_output['trace'].assistant_messages %}{{ one.content "
                "}}{% endfor %}"
            ),
            0.5,
        ),
        ("{{ (solver_output | tojson | fromjson).trace.get_last_assistant_text() }}", 0.5),
    ],
)
def test_later_names_exist_without_a_prompt(tmp_path: Path, value: str, accuracy: float) -> None:
    """A recorded text is an exchange of one message; a message that was not recorded is None."""
    scorer = {"type": "string_equals", "ground_truth": "{{ sample.answer }}", "value": value}
    run = answerkey.run(write_recorded(tmp_path, scorers=[scorer]), out=tmp_path / "out")
    assert run.tasks["t"].metrics["Accuracy"].value == accuracy


def test_missing_trace_names_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """After a dot in a snippet, with the names there are; no sample is scored by it."""
    snippet = (
        "def compute_scores(sample, solver_output):\n    return {'x': "
        "len(solver_output.trace.events)}\n"
    )
    metrics = [{"type": "mean", "field": "x"}]
    scorers = [{"type": "python", "compute_scores_snippet": snippet, "metrics": metrics}]
    file = write_recorded(tmp_path, scorers=scorers)
    main(["run", str(file), "--out", str(tmp_path / "out"), "--trust-code", "-q"])
    capsys.readouterr()
    (task,) = answerkey.load_run(tmp_path / "out").tasks.values()
    assert [row["python"]["status"] for row in task.scores.to_dicts()] == ["FAILED", "FAILED"]
    reason = task.scores.to_dicts()[0]["python"]["reason"]
    assert "there is no key 'events'; keys: 'items', 'turns'" in reason


CODE = "def {name}(messages, environment):\n last = messages{step}[-1]\n "
CODE += "return environment['LETTER'] + last['content']\n"


@pytest.mark.parametrize(
    "config",
    [
        {"snippet": CODE.format(name="infer", step="")},
        {"run_inference_snippet": CODE.format(name="infer", step="")},
        {
            "run_inference_snippet": CODE.format(name="run_inference", step="['messages']"),
            "adapter": {"key": "latticeflow$openai_chat_completion"},
            "timeout": 15,
        },
    ],
)
def test_custom_inference_in_names_of_both_eras(tmp_path: Path, config: dict[str, object]) -> None:
    """The later function is given the messages in a mapping; the answers are the same."""
    file = write_inference(tmp_path, config)
    run = answerkey.run(file, out=tmp_path / "out", trust_code=True)
    assert list(run.tasks["t"].completions["completion"]) == ["B!", "B!"]


def write_inference(folder: Path, config: dict[str, object]) -> Path:
    """Write a run file whose model is a snippet; return it."""
    scorer = {"type": "string_equals", "ground_truth": "{{ sample.answer }}"}
    file = write_recorded(folder, scorers=[scorer], solver=describe_solver("!"))
    whole = json.loads(file.read_text())
    connection = {"connection_type": "custom_inference", "environment": {"LETTER": "B"}, **config}
    whole["models"] = [{"key": "m", "display_name": "M", "config": connection}]
    whole["evaluation"] = {"key": "e", "task_specifications": [{"task_key": "t", "model_key": "m"}]}
    file.write_text(json.dumps(whole))
    return file


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"timeout": 0.5, "snippet": "x"}, "error[E108]: `timeout`"),
        ({}, "error[E108]: `custom_inference` needs `snippet`"),
        (
            {"snippet": "x", "run_inference_snippet": "x"},
            "error[E108]: `custom_inference` needs `snippet`",
        ),
        ({"run_inference_snippet": "x = 1"}, "defines no function `run_inference`"),
        (
            {"snippet": CODE.format(name="infer", step=""), "adapter": {"key": "mine"}},
            "error[E116]: an adapter of your own in `custom_inference` is not supported",
        ),
    ],
)
def test_custom_inference_that_cannot_run_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], config: dict[str, object], message: str
) -> None:
    """Before anything runs."""
    assert main(["check", str(write_inference(tmp_path, config))]) == 2
    assert message in capsys.readouterr().out


def test_an_adapter_reads_the_generation_as_kwargs(tmp_path: Path) -> None:
    """`kwargs` is the mapping of what is set, as `model_info.generation` is."""
    adapter = {
        "key": "mine",
        "display_name": "Mine",
        "provider": "user",
        "process_input": {
            "language": "jinja",
            "source_code": '{"messages": {{ input.messages | tojson }}, "model": "x",'
            ' "seed": {{ kwargs.seed }}, "count": {{ kwargs | length }}}',
        },
        "process_output": {"language": "jinja", "source_code": "{{ body }}"},
    }
    with TestServer("A") as server:
        config = {"url": f"{server.url}/chat/completions", "adapter": {"key": "mine"}}
        file = write_inference(tmp_path, {"snippet": "x"})
        whole = json.loads(file.read_text())
        whole["models"] = [
            {"key": "m", "display_name": "M", "config": config, "generation": {"seed": 7}}
        ]
        whole["model_adapters"] = [adapter]
        file.write_text(json.dumps(whole))
        run = answerkey.run(file, out=tmp_path / "out", cache_policy="no-cache")
    assert run.tasks["t"].metrics["Accuracy"].value == 0.5
    bodies = [request.body or {} for request in server.asked.requests]
    assert {(body["seed"], body["count"]) for body in bodies} == {(7, 1)}


@pytest.mark.parametrize(
    "name", ["python_all_samples", "bleu", "rag_checker", "function_call_coverage"]
)
def test_scorers_of_the_original_are_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """With what to do instead, and the types there are."""
    file = write_recorded(tmp_path, scorers=[{"type": name, "ground_truth": "A"}])
    assert main(["check", str(file)]) == 2
    printed = capsys.readouterr().out
    assert f"error[E116]: scorer type `{name}` of the original platform is not supported" in printed
    assert "`string_equals_mcqa`" in printed
