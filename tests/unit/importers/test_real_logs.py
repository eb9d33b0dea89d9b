"""Laws that hold on logs which other tools really wrote."""

from __future__ import annotations

import csv
import json
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import answerkey as ak

if TYPE_CHECKING:
    from tests.unit.importers.conftest import Desk

FOLDER = Path(__file__).parents[4] / "shared" / "data"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the shared material is not here")


@pytest.mark.parametrize("name", ["mmlu-summary-choices", "mmlu-no-summary-choices"])
def test_logs_of_inspect_agree_with_our_verdicts(desk: Desk, name: str) -> None:
    """Its rule reads `ANSWER: C`, and so does ours; both say that C is wrong."""
    result = desk.bring(FOLDER / "inspect_logs" / f"{name}.eval")
    assert (result.kind, result.samples, result.tasks[0].imported_mean) == ("inspect", 1, 0.0)
    task = ak.run(result.folder, out=desk.folder / "run").tasks["mmlu_0_shot"]
    assert task.metrics["Accuracy"].value == 0.0
    assert (task.totals["imported"]["compared"], task.totals["imported"]["both_wrong"]) == (1, 1)
    assert task.scores["string_equals_mcqa"][0]["metadata"]["predicted_choice"] == "C"
    assert desk.said("imported_answer")[0] == "C"


#: Model, samples, those with a verdict, right ones; the short series reads the first.
OUTPUTS = [
    ("Qwen1.5-7B-Chat", 12_032, 9_223, 3_181),
    ("Mixtral-8x7B-Instruct-v0.1", 12_032, 10_606, 5_040),
    ("gemini-1.5-flash-002", 12_012, 11_941, 7_699),
]


@pytest.mark.parametrize(
    ("name", "samples", "judged", "right"),
    OUTPUTS if os.environ.get("ANSWERKEY_LONG") else OUTPUTS[:1],
)
def test_outputs_of_mmlu_pro_are_read_from_the_archive(
    desk: Desk, name: str, samples: int, judged: int, right: int
) -> None:
    """Every row has a text, ten or fewer options, a category, and mostly a verdict."""
    result = desk.bring(FOLDER / "mmlu_pro_outputs" / f"model_outputs_{name}_5shots.zip")
    assert (result.kind, result.samples, result.tasks[0].judged) == ("mmlu-pro", samples, judged)
    assert result.tasks[0].statuses == {"OK": samples}
    assert round((result.tasks[0].imported_mean or 0) * judged) == right
    rows = desk.asked()
    assert {len(row["choices"]) for row in rows} <= set(range(1, 11))
    assert len({row["category"] for row in rows}) == 14
    assert all(row["answer"] in row["choices"] for row in rows)


@cache
@cache
def read_known() -> dict[tuple[str, tuple[str, ...]], str]:
    """Return the right letters of all MMLU and ARC questions, by question and options."""
    truths: dict[tuple[str, tuple[str, ...]], str] = {}
    for file in sorted((FOLDER / "mmlu").rglob("*.csv")):
        with file.open(encoding="utf-8", newline="") as stream:
            for question, *options, letter in csv.reader(stream):
                truths[question.strip(), tuple(option.strip() for option in options)] = letter
    for file in sorted((FOLDER / "arc_challenge").glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            options = row["question"]["choices"]
            labels = [option["label"] for option in options]
            texts = tuple(option["text"].strip() for option in options)
            truths[row["question"]["stem"].strip(), texts] = "ABCDE"[labels.index(row["answerKey"])]
    return truths


#: Log, task, samples, the tool's own number, ours by `stated_answer`. Where they differ, the tool
#: reads only the forms that it asks for (`ANSWER: X`, an exact letter), or takes the last letter of
#: any text.
REAL = [
    ("inspect/*mcq_AG*.eval", "mcq", 60, 4 / 60, 12 / 60),
    ("inspect/*mcq-epochs*.eval", "mcq_epochs", 20, 0.1, 0.15),
    ("inspect/*dicty*.eval", "dicty", 10, 0.2, 0.0),
    ("inspect/*custom*.json", "custom", 40, 0.3, 0.3),
    ("lm_eval_chat", "local_gen", 120, 2 / 120, None),
    ("lm_eval_chat", "local_arc_gen", 60, 1 / 60, 0.1),
    ("lm_eval_loglikelihood", "local_mc", 120, 31 / 120, 31 / 120),
    ("lm_eval_loglikelihood", "local_cloze", 120, 33 / 120, 33 / 120),
    ("lm_eval_generate", "x_gpqa", 40, 0.0, 0.2),
    ("evalscope", "general_mcq_example", 60, 11 / 60, 11 / 60),
    ("lighteval", "localgpqa-0", 40, 0.15, 0.15),
    ("lighteval", "localem-0", 40, 0.0, 0.175),
    ("opencompass", "localmcq", 40, 0.275, 0.275),
    ("helm", "mmlu_anatomy_joint", 25, 0.0, 0.08),
    ("promptfoo/out1.json", "out1", 40, 0.25, 0.25),
    ("promptfoo/out1.csv", "out1", 40, 0.25, 0.25),
    ("promptfoo/out1.yaml", "out1", 40, 0.25, 0.25),
    ("promptfoo/out2*.json", "out2_repeat_two_providers", 8, 0.4, None),
    ("every_eval_ever", "mcq", 60, 4 / 60, 14 / 60),
    ("every_eval_ever", "mcq_epochs", 20, 0.1, 0.25),
]


@pytest.mark.parametrize(("pattern", "key", "samples", "theirs", "ours"), REAL)
def test_every_field_of_a_real_log_is_right(
    desk: Desk, pattern: str, key: str, samples: int, theirs: float, ours: float | None
) -> None:
    """Question, options and truth are those of the dataset.

    The numbers are the tool's, and ours.
    """
    # Of one log only the first 60 of its 320 rows were kept.
    allowed = "65" if "out2" in pattern else None
    result = desk.bring(next((FOLDER / "real_logs").glob(pattern)), allow_failed=allowed)
    task = next(text for text in result.tasks if text.key == key)
    assert task.samples == samples
    assert task.imported_mean == pytest.approx(theirs)
    truths, wrong = read_known(), []
    for row in desk.asked(task=key):
        options = tuple(text.strip() for text in row["options"] or ())
        right = truths.get((row["question"].strip(), options))
        if "ABCDE"[row["choices"].index(row["answer"])] != right:
            wrong.append(row)
    assert wrong == []
    if ours is not None:
        run = ak.run(desk.out, out=desk.folder / "run")
        assert run.tasks[key].metrics["Accuracy"].value == pytest.approx(ours)
