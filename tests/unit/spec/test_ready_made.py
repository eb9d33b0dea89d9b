from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from answerkey.cli import main
from answerkey.datasets.dataset import open_dataset
from answerkey.datasets.hub import HuggingFaceSource
from answerkey.errors import SpecError
from answerkey.evaluate.dry_run import check
from answerkey.solvers.single_turn import SingleTurnSolver
from answerkey.spec import Job, Options, find_ready_made, load_plan
from answerkey.spec.ready_made import list_ready_made, load_ready_made, write_project
from answerkey.spec.schema import schema
from answerkey.types import Samples

from .conftest import load, sound

NAMES = [
    "agieval", "arc", "bbh", "bbq", "belebele", "boolq", "ceval", "cmmlu", "commonsenseqa", "copa",
    "global_mmlu", "gpqa", "hellaswag", "hle", "include", "jcommonsenseqa", "kmmlu", "logiqa",
    "medmcqa", "medqa", "mmlu", "mmlu_pro", "mmlu_redux", "mmmlu", "mmmu", "mmmu_pro", "musr",
    "openbookqa", "piqa", "pubmedqa", "quality", "race", "sciq", "siqa", "supergpqa",
    "truthfulqa_mc", "winogrande", "wmdp", "xcopa",
]  # fmt: skip
#: Those whose chance level differs from row to row.
UNEVEN = {"agieval", "bbh", "hle", "mmmu", "mmmu_pro", "musr", "supergpqa", "truthfulqa_mc"}
IS_LONG = bool(os.environ.get("ANSWERKEY_LONG"))
REAL = Path(__file__).parents[4] / "shared" / "data"


def lines(*rows: Mapping[str, object]) -> str:
    """Return rows as JSON Lines."""
    return "".join(json.dumps(row) + "\n" for row in rows)


STEM = {
    "id": "q1",
    "question": {
        "stem": "Which?",
        "question_concept": "things",
        "choices": [{"text": "x", "label": "1"}, {"text": "y", "label": "2"}],
    },
    "answerKey": "2",
}
LABELS = {"id": "q1", "choices": {"text": ["x", "y"], "label": ["A", "B"]}, "answerKey": "B"}
OPTIONS = {"opa": "w", "opb": "x", "opc": "y", "opd": "z"}
#: Benchmark, files of one form, and what its first row becomes: question, options, answer,
#: category.
FORMS: list[tuple[str, dict[str, str], tuple[str, list[str], str, str | None]]] = [
    ("mmlu", {"sums_test.csv": "1+1?,1,2,3,4,B\n"}, ("1+1?", ["1", "2", "3", "4"], "B", "sums")),
    ("mmlu", {"law_test.csv": "question,A,B,C,D,answer\n?,1,2,3,4,C\n"}, ("?", ["1", "2", "3", "4"], "C", "law")),  # noqa: E501 - one case, one line
    ("mmlu", {"all.jsonl": lines({"question": "?", "subject": "law", "choices": ["x", "y"], "answer": 1})}, ("?", ["x", "y"], "B", "law")),  # noqa: E501 - one case, one line
    ("mmlu", {"own.jsonl": lines({"question": "?", "options": ["x", "y"], "answer": "A"})}, ("?", ["x", "y"], "A", "all")),  # noqa: E501 - one case, one line
    ("mmlu_pro", {"test.jsonl": lines({"question_id": 7, "question": "?", "options": ["x", "y"], "answer": "B", "category": "law"})}, ("?", ["x", "y"], "B", "law")),  # noqa: E501 - one case, one line
    ("arc", {"ARC-Easy-Test.jsonl": lines(STEM)}, ("Which?", ["x", "y"], "B", "ARC-Easy")),
    ("arc", {"test.jsonl": lines({**LABELS, "question": "?"})}, ("?", ["x", "y"], "B",
    "ARC-Challenge")),
    ("hellaswag", {"hellaswag_val.jsonl": lines({"ctx": "He", "endings": ["a", "b", "c", "d"], "label": 2, "activity_label": "Run", "source_id": "wikihow~1"})}, ("Run: He", ["a", "b", "c", "d"], "C", "wikihow")),  # noqa: E501 - one case, one line
    ("truthfulqa_mc", {"mc_task.json": json.dumps([{"question": "?", "mc1_targets": {"x": 0, "y": 1}, "mc2_targets": {"x": 0, "y": 1}}])}, ("?", ["x", "y"], "B", "all")),  # noqa: E501 - one case, one line
    ("truthfulqa_mc", {"t.jsonl": lines({"question": "?", "mc1_targets": {"choices": ["x", "y"], "labels": [1, 0]}})}, ("?", ["x", "y"], "A", "all")),  # noqa: E501 - one case, one line
    ("commonsenseqa", {"dev_rand_split.jsonl": lines(STEM)}, ("Which?", ["x", "y"], "B", "things")),
    ("commonsenseqa", {"v.jsonl": lines({**LABELS, "question": "?", "question_concept": "c"})}, ("?", ["x", "y"], "B", "c")),  # noqa: E501 - one case, one line
    ("openbookqa", {"test.jsonl": lines(STEM)}, ("Which?", ["x", "y"], "B", None)),
    ("openbookqa", {"t.jsonl": lines({**LABELS, "question_stem": "?"})}, ("?", ["x", "y"], "B",
    None)),
    ("medmcqa", {"dev.json": lines({"id": "a", "question": "?", **OPTIONS, "cop": 4, "subject_name": "ENT"})}, ("?", ["w", "x", "y", "z"], "D", "ENT")),  # noqa: E501 - one case, one line
    ("medmcqa", {"v.jsonl": lines({"id": "a", "question": "?", **OPTIONS, "cop": 0, "subject_name": "ENT"})}, ("?", ["w", "x", "y", "z"], "A", "ENT")),  # noqa: E501 - one case, one line
    ("logiqa", {"test.txt": lines({"text": "P.", "question": "Q?", "options": ["x", "y"], "answer": 1})}, ("P.\n\nQ?", ["x", "y"], "B", None)),  # noqa: E501 - one case, one line
    ("logiqa", {"t.jsonl": lines({"context": "P.", "query": "Q?", "options": ["x", "y"], "correct_option": 0})}, ("P.\n\nQ?", ["x", "y"], "A", None)),  # noqa: E501 - one case, one line
    ("agieval", {"lsat-ar.jsonl": lines({"passage": "P.", "question": "Q?", "options": ["(A)x", "(B) y"], "label": "B", "answer": None}), "math.jsonl": lines({"passage": None, "question": "Q?", "options": None, "label": None, "answer": "7"})}, ("P.\n\nQ?", ["x", "y"], "B", "lsat-ar")),  # noqa: E501 - one case, one line
    ("cmmlu", {"agronomy.csv": ",Question,A,B,C,D,Answer\n0,?,w,x,y,z,D\n"}, ("?", ["w", "x", "y", "z"], "D", "agronomy")),  # noqa: E501 - one case, one line
    ("jcommonsenseqa", {"valid-v1.3.json": lines({"q_id": 5, "question": "?", **{f"choice{n}": str(n) for n in range(5)}, "label": 2})}, ("?", ["0", "1", "2", "3", "4"], "C", None)),  # noqa: E501 - one case, one line
    ("bbq", {"Age.jsonl": lines({"context": "P.", "question": "Q?", **{f"ans{n}": str(n) for n in range(3)}, "label": 2, "category": "Age", "context_condition": "ambig"})}, ("P.\n\nQ?", ["0", "1", "2"], "C", "Age")),  # noqa: E501 - one case, one line
    ("hellaswag", {"val.jsonl": lines({"ctx": "x", "ctx_a": "[header] How to run [title] Go  out.", "ctx_b": "then he", "endings": ["a [step] b", "b", "c", "d"], "label": "2", "activity_label": "Run", "source_id": "wikihow~1"})}, ("Run: How to run. Go out. Then he", ["a b", "b", "c", "d"], "C", "wikihow")),  # noqa: E501 - one case, one line
    ("gpqa", {"gpqa_diamond.csv": "Question,Correct Answer,Incorrect Answer 1,Incorrect Answer 2,Incorrect Answer 3,High-level domain,Record ID\nWhich?,w,x,y,z,Physics,rec1\n"}, ("Which?", ["y", "w", "x", "z"], "B", "Physics")),  # noqa: E501 - one case, one line
    ("mmlu_redux", {"law/data.jsonl": lines({"question": "?", "choices": ["x", "y"], "answer": 1, "error_type": "wrong_groundtruth", "correct_answer": "0"})}, ("?", ["x", "y"], "B", "law")),  # noqa: E501 - one case, one line
    ("supergpqa", {"SuperGPQA-all.jsonl": lines({"uuid": "u1", "question": "?", "options": ["x", "y"], "answer": "y", "answer_letter": "B", "discipline": "Law"})}, ("?", ["x", "y"], "B", "Law")),  # noqa: E501 - one case, one line
    ("winogrande", {"dev.jsonl": lines({"sentence": "The cup fits the box as the _ is big.", "option1": "cup", "option2": "box", "answer": "2"})}, ("The cup fits the box as the _ is big.", ["cup", "box"], "B", None)),  # noqa: E501 - one case, one line
    ("piqa", {"v.jsonl": lines({"goal": "Open a jar", "sol1": "Twist.", "sol2": "Sing.", "label": 0})}, ("Open a jar", ["Twist.", "Sing."], "A", None)),  # noqa: E501 - one case, one line
    ("boolq", {"dev.jsonl": lines({"question": "is it so", "passage": "It is not.", "answer": False})}, ("It is not.\n\nis it so?", ["Yes", "No"], "B", None)),  # noqa: E501 - one case, one line
    ("siqa", {"v.jsonl": lines({"context": "He left.", "question": "Why?", "answerA": "x", "answerB": "y", "answerC": "z", "label": "3"})}, ("He left. Why?", ["x", "y", "z"], "C", None)),  # noqa: E501 - one case, one line
    ("sciq", {"t.jsonl": lines({"question": "What?", "correct_answer": "iron", "distractor1": "x", "distractor2": "y", "distractor3": "z", "support": "Text."})}, ("What?", ["iron", "y", "z", "x"], "A", None)),  # noqa: E501 - one case, one line
    ("race", {"t.jsonl": lines({"example_id": "high1.txt", "article": "P.", "question": "Q?", "options": ["w", "x", "y", "z"], "answer": "D"})}, ("P.\n\nQ?", ["w", "x", "y", "z"], "D", None)),  # noqa: E501 - one case, one line
    ("medqa", {"test.jsonl": lines({"question": "?", "options": {"A": "w", "B": "x", "C": "y", "D": "z"}, "answer": "y", "answer_idx": "C"})}, ("?", ["w", "x", "y", "z"], "C", None)),  # noqa: E501 - one case, one line
    ("medqa", {"test.jsonl": lines({"sent1": "?", **{f"ending{n}": str(n) for n in range(4)}, "label": 3})}, ("?", ["0", "1", "2", "3"], "D", None)),  # noqa: E501 - one case, one line
    ("pubmedqa", {"t.jsonl": lines({"pubid": 7, "question": "Is it?", "context": {"contexts": ["One.", "Two."]}, "final_decision": "maybe"})}, ("One.\nTwo.\n\nIs it?", ["yes", "no", "maybe"], "C", None)),  # noqa: E501 - one case, one line
    ("copa", {"v.jsonl": lines({"premise": "It rained.", "choice1": "x", "choice2": "y", "question": "effect", "label": 1})}, ("It rained.\n\nWhat happened as a result?", ["x", "y"], "B", "effect")),  # noqa: E501 - one case, one line
    ("xcopa", {"v.jsonl": lines({"premise": "Sadas.", "choice1": "x", "choice2": "y", "question": "cause", "label": 0})}, ("Sadas.\n\nWhat was the cause?", ["x", "y"], "A", "cause")),  # noqa: E501 - one case, one line
    ("quality", {"v.jsonl": lines({"question_unique_id": "1_2", "article": "P.", "question": "Q?", "options": ["w", "x", "y", "z"], "gold_label": 2, "difficult": 1})}, ("P.\n\nQ?", ["w", "x", "y", "z"], "B", "hard")),  # noqa: E501 - one case, one line
    ("musr", {"team_allocation.csv": "narrative,question,choices,answer_index\nP.,Q?,\"['x', 'y', 'z']\",2\n"}, ("P.\n\nQ?", ["x", "y", "z"], "C", "team_allocation")),  # noqa: E501 - one case, one line
    ("bbh", {"snarks.jsonl": lines({"question": "?", "choices": {"label": ["(A)", "(B)"], "text": ["x", "y"]}, "target": "(B)"}, {"question": "?", "choices": {"label": ["(A)"], "text": ["x"]}, "target": "(E)"})}, ("?", ["x", "y"], "B", "snarks")),  # noqa: E501 - one case, one line
    ("wmdp", {"wmdp-bio/test.jsonl": lines({"question": "?", "choices": ["w", "x", "y", "z"], "answer": 2})}, ("?", ["w", "x", "y", "z"], "C", "wmdp-bio")),  # noqa: E501 - one case, one line
    ("ceval", {"law_val.csv": "id,question,A,B,C,D,answer\n0,?,w,x,y,z,B\n"}, ("?", ["w", "x", "y", "z"], "B", "law")),  # noqa: E501 - one case, one line
    ("kmmlu", {"Law-test.csv": "question,answer,A,B,C,D,Category\n?,4,w,x,y,z,Law\n"}, ("?", ["w", "x", "y", "z"], "D", "Law")),  # noqa: E501 - one case, one line
    ("belebele", {"deu_Latn.jsonl": lines({"flores_passage": "P.", "question": "Q?", **{f"mc_answer{n}": str(n) for n in range(1, 5)}, "correct_answer_num": "3"})}, ("P.\n\nQ?", ["1", "2", "3", "4"], "C", None)),  # noqa: E501 - one case, one line
    ("global_mmlu", {"t.jsonl": lines({"sample_id": "law/test/0", "subject": "law", "question": "?", "option_a": "w", "option_b": "x", "option_c": "y", "option_d": "z", "answer": "B"})}, ("?", ["w", "x", "y", "z"], "B", "law")),  # noqa: E501 - one case, one line
    ("mmmlu", {"mmlu_DE-DE.csv": ",Question,A,B,C,D,Answer,Subject\n0,?,w,x,y,z,A,law\n"}, ("?", ["w", "x", "y", "z"], "A", "law")),  # noqa: E501 - one case, one line
    ("include", {"t.jsonl": lines({"language": "German", "domain": "STEM", "question": "?", "option_a": "w", "option_b": "x", "option_c": "y", "option_d": "z", "answer": 3})}, ("?", ["w", "x", "y", "z"], "D", "STEM")),  # noqa: E501 - one case, one line
    ("mmmu", {"v.jsonl": lines({"id": "validation_Art_Theory_1", "question": "<image 1>?", "options": "['x', 'y']", "answer": "B", "question_type": "multiple-choice", "image_1": None}, {"id": "validation_Math_2", "question": "?", "options": "[]", "answer": "7", "question_type": "open", "image_1": None})}, ("<image 1>?", ["x", "y"], "B", "Art_Theory")),  # noqa: E501 - one case, one line
    ("mmmu_pro", {"t.jsonl": lines({"id": "test_Law_1", "question": "?", "options": "['x', 'y']", "answer": "A", "subject": "Law", "image_1": None})}, ("?", ["x", "y"], "A", "Law")),  # noqa: E501 - one case, one line
    ("hle", {"t.jsonl": lines({"id": "a", "question": "Which?\n\nAnswer Choices:\nA. x\nB. y\nC. z", "answer": "C", "answer_type": "multipleChoice", "image": "", "category": "Math"}, {"id": "b", "question": "How many?", "answer": "7", "answer_type": "exactMatch", "image": "", "category": "Math"})}, ("Which?", ["x", "y", "z"], "C", "Math")),  # noqa: E501 - one case, one line
]  # fmt: skip


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def write_files(files: Mapping[str, str]) -> Path:
    """Return a folder with these files."""
    folder = Path("raw")
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@cache
def validator(kind: str) -> Draft202012Validator:
    """Return what holds a file against the schema of its kind."""
    return Draft202012Validator(schema(kind))  # type: ignore[arg-type]


def plan(name: str, **overrides: Any) -> Job:  # noqa: ANN401 - the fields of Options
    """Return the only job of a ready-made task."""
    return sound(load_plan(name, Options(**overrides))).jobs[0]


def test_these_are_ready() -> None:
    """39 benchmarks; a path that is there comes before a name."""
    assert list_ready_made() == NAMES
    assert find_ready_made("MMLU-Pro") == "mmlu_pro"
    Path("mmlu").mkdir()
    assert find_ready_made("mmlu") == "mmlu"
    Path("mmlu/run.yaml").write_text("")
    assert find_ready_made("mmlu") is None
    Path("arc").write_text("")
    assert find_ready_made("arc") is None
    with pytest.raises(SpecError, match="there is no ready-made task `mlu`") as caught:
        load_ready_made("mlu")
    assert caught.value.hint == "did you mean `mmlu`?"


@pytest.mark.parametrize("name", NAMES)
def test_each_says_what_people_need_to_know(name: str) -> None:
    """Title, languages, options, chance where it is one number, citation, licence, homepage,
    forms.
    """
    ready = load_ready_made(name)
    about = ready.about
    texts = [about.title, about.summary, about.options, about.citation, about.licence]
    texts += about.languages
    assert all(isinstance(text, str) and text == text.strip() != "" for text in texts)
    assert about.homepage.startswith("https://")
    assert about.chance is None or 0 < about.chance < 1
    assert about.chance is not None or name in UNEVEN
    assert ready.own_forms
    assert all(form.description and form.expects for form in ready.own_forms)


@pytest.mark.parametrize("name", NAMES)
def test_each_is_a_task_that_loads(name: str) -> None:
    """Also alone, as a task file would; and its dataset is on the hub."""
    job = plan(name)
    assert job.task.key == name
    assert isinstance(job.dataset_spec.source, HuggingFaceSource)
    assert "/" in job.dataset_spec.source.path
    assert load(name).errors == []


def test_no_question_is_shipped() -> None:
    """The files hold prompts and templates, and are short."""
    folder = Path(load_plan.__code__.co_filename).parent / "benchmarks"
    assert sorted(path.stem for path in folder.iterdir()) == NAMES
    assert all(path.stat().st_size < 6000 for path in folder.iterdir())


#: All forms from a folder; as one file, in the short series, every fourth and those that a folder
#: completes.
GIVEN = [
    (*form, as_folder)
    for number, form in enumerate(FORMS)
    for as_folder in (True, False)
    if as_folder or IS_LONG or number % 4 == 0 or form[0] in {"mmlu_redux", "wmdp"}
]


@pytest.mark.parametrize(("name", "files", "row", "as_folder"), GIVEN)
def test_raw_files_are_read_as_the_task_wants_them(
    name: str,
    files: dict[str, str],
    row: tuple[str, list[str], str, str | None],
    *,
    as_folder: bool,
) -> None:
    """By their columns, from a folder or one by one; nothing is wrong with the rows."""
    folder = write_files(files)
    given = str(folder if as_folder else folder / next(iter(files)))
    job = plan(name, dataset=given)
    dataset = open_dataset(job.dataset_spec.source, name="x")
    sample = dataset.samples().row(0)
    category = load_ready_made(name).about.category
    fields = (
        sample["question"],
        sample["options"],
        sample["answer"],
        category and sample[category],
    )
    # A file alone does not say the folder that it is for.
    is_cut = not as_folder and name in {"mmlu_redux", "wmdp"}
    assert fields == ((*row[:3], "all") if is_cut else row)
    assert len(dataset) == 1
    assert check(name, dataset=given).errors == ()
    # The question, then a line for each option with its letter.
    content = first_prompt(job)[-1]["content"]
    content = content if isinstance(content, str) else content[0]["text"]
    shown = "\n".join(f"{letter}. {text}" for letter, text in zip("ABCDE", row[1], strict=False))
    assert f"{row[0]}\n\n{shown}" in content


def first_prompt(job: Job, examples: Samples | None = None) -> list[dict[str, Any]]:
    """Return the messages of the first row."""
    samples = open_dataset(job.dataset_spec.source, name="x").samples()
    solver = job.task.solver
    assert isinstance(solver, SingleTurnSolver)
    prompt = solver.build_prompts(samples, examples)[0]
    assert isinstance(prompt, list)
    return prompt


LAW = {
    "question": " What? ", "options": ["x", "y"], "answer": "B", "subject": "us_law",
    "category": "law",
}  # fmt: skip
ABOUT = "The following are multiple choice questions (with answers) about"
ASKED = "What is the correct answer to this question:"
STEPS = (
    "Let’s think step by step. Based on your reasoning, what is the single, most likely "
    "answer choice? Format"
)
STEPS += ' your response as follows: "The correct answer is (insert answer here)".'
#: A ready-made task, a wording, and what it makes of `LAW`.
WORDINGS = [
    ("mmlu", "helm", f"{ABOUT} us law.\n\nQuestion:  What? \nA. x\nB. y\nAnswer:"),
    ("mmlu", "lm-eval", f"{ABOUT} us law.\n\nWhat?\nA. x\nB. y\nAnswer:"),
    ("mmlu", "official", f"{ABOUT}  us law.\n\n What? \nA. x\nB. y\nAnswer:"),
    ("mmlu_pro", "helm", f"{ASKED}  What? \nChoices:\nA. x\nB. y\n{STEPS}"),
    ("mmlu_pro", "lm-eval", f'{ABOUT} law. Think step by step and then finish your answer with "the answer is (X)" where X is the correct letter choice.\nQuestion:\n What? \nOptions:\nA. x\nB. y\nAnswer: Let\'s think step by step.'),  # noqa: E501 - one case, one line
    ("mmlu_pro", "official", f'{ABOUT} law. Think step by step and then output the answer in the format of "The answer is (X)" at the end.\n\nQuestion:  What? \nOptions: A. x\nB. y\nAnswer: Let\'s think step by step.'),  # noqa: E501 - one case, one line
    ("arc", "lm-eval", 'Given the following question and four candidate answers (A, B, C and D), choose the best answer.\nQuestion: What?\nA. x\nB. y\nYour response should end with "The best answer is [the_answer_letter]" where the [the_answer_letter] is one of A, B, C or D.'),  # noqa: E501 - one case, one line
    ("hellaswag", "helm", f"{ABOUT} common sense.\n\nQuestion:  What? \nA. x\nB. y\nAnswer:"),
    ("gpqa", "helm", f"{ASKED}  What? \nChoices:\n(A) x\n(B) y\n{STEPS}"),
    ("gpqa", "lm-eval", f"{ASKED} What? \nChoices:\n(A) x\n(B) y\nLet's think step by step: "),
    ("medqa", "helm", f"{ABOUT} medicine.\n\nQuestion:  What? \nA. x\nB. y\nAnswer:"),
    ("kmmlu", "lm-eval", "What?\nA. x\nB. y\n정답："),
]  # fmt: skip


@pytest.mark.parametrize(("name", "wording", "text"), WORDINGS)
def test_prompts_of_others_are_a_config_value(name: str, wording: str, text: str) -> None:
    """Their words, to the letter; the run's options are the same otherwise."""
    folder = write_files({"own.jsonl": lines(LAW)})
    job = plan(name, dataset=str(folder), config={"prompt": wording})
    assert first_prompt(job) == [{"role": "user", "content": text}]


def test_images_follow_the_question() -> None:
    """As parts of the message, in the order of their columns.

    Those that a row lacks are left out.
    """
    image = "data:image/png;base64,iVBORw0KGgo="
    row = {"id": "1", "question": "<image 1>?", "options": "['x', 'y']", "answer": "A"}
    images = {"image_1": image, "image_2": None, "image_3": image}
    folder = write_files({"t.jsonl": lines({**row, "subject": "Law", **images})})
    (message,) = first_prompt(plan("mmmu_pro", dataset=str(folder)))
    assert [part["type"] for part in message["content"]] == ["text", "image", "image"]
    assert message["content"][0]["text"].startswith("<image 1>?\n\nA. x\nB. y\n")


def test_examples_of_a_file_stand_before_the_question() -> None:
    """As turns of their own, those of the same subject; without shots nothing of them is read."""
    about = {"options": ["x", "y"], "answer": "A", "category": "law"}
    row = {"question_id": 1, "question": "Q?", **about}
    solution = {"cot_content": "A: Let's see. The answer is (A)."}
    solved = {"question_id": 2, "question": "E?", **about, **solution}
    dev = lines(solved, {**solved, "question_id": 3, "category": "art"})
    write_files({"test.jsonl": lines(row), "dev.jsonl": dev})
    chosen = {"shots": 1, "examples": "raw/dev.jsonl"}
    job = plan("mmlu_pro", dataset="raw/test.jsonl", config=chosen)
    assert job.examples_spec is not None
    examples = open_dataset(job.examples_spec.source, name="x").samples()
    user, assistant, question = first_prompt(job, examples)
    assert [message["role"] for message in (user, assistant, question)] == [
        "user",
        "assistant",
        "user",
    ]
    assert "E?\n\nA. x\nB. y" in user["content"]
    assert assistant["content"] == "Let's see. The answer is (A)."
    assert "Q?\n\nA. x\nB. y" in question["content"]
    without = plan("mmlu_pro", dataset="raw/test.jsonl", config={"examples": "raw/dev.jsonl"})
    assert without.examples_spec is None
    assert len(first_prompt(without)) == 1
    assert check("mmlu_pro", dataset="raw/test.jsonl", config=chosen).errors == ()


def test_examples_of_the_hub_are_of_another_split() -> None:
    """Of the same subset or language; each kind has a key of its own."""
    text = """\
datasets:
  - {key: mine, display_name: Mine, source: {type: inline, rows: [{question: Q, options: [x], answer: A}]}}
evaluation:
  key: several
  task_specifications:
    - {task_key: arc, task_config: {shots: 5}, model_key: builtin/random}
    - {task_key: arc, task_config: {shots: 5, subset: ARC-Easy}, model_key: builtin/random}
    - {task_key: arc, task_config: {shots: 5, examples: mine}, model_key: builtin/random}
    - {task_key: arc, task_config: {shots: 1, examples: raw/dev.jsonl}, model_key: builtin/random}
    - {task_key: ceval, task_config: {shots: 5}, model_key: builtin/random}
"""  # noqa: E501 - the text as it is written
    write_files({"dev.jsonl": lines(LAW)})
    Path("run.yaml").write_text(text)
    jobs = sound(load_plan("run.yaml")).jobs
    shown = [job.examples_spec for job in jobs if job.examples_spec is not None]
    keys = ["arc_examples", "arc_examples-2", "mine", "arc_examples-3", "ceval_examples"]
    assert [spec.key for spec in shown] == keys
    questions, source, of_files = jobs[1].dataset_spec.source, shown[1].source, shown[-1].source
    assert isinstance(questions, HuggingFaceSource)
    assert isinstance(source, HuggingFaceSource)
    assert isinstance(of_files, HuggingFaceSource)
    assert (source.name, source.split, questions.split) == ("ARC-Easy", "train", "test")
    assert of_files.data_files == "*/dev/*.parquet"


def test_examples_in_another_form_are_refused() -> None:
    """As a dataset would be; a config value that is wrong is told once."""
    write_files({"test.jsonl": lines(LAW), "dev.jsonl": lines({"frage": "?"})})
    chosen = {"shots": 1, "examples": "raw/dev.jsonl"}
    loaded = load_plan("mmlu", Options(dataset="raw/test.jsonl", config=chosen))
    assert "E206" in {error.code for error in loaded.errors}
    loaded = load_plan("mmlu", Options(config={"shots": -1}))
    assert [error.code for error in loaded.errors] == ["E111"]


def test_rows_by_what_annotators_say() -> None:
    """MMLU-Redux asks all rows, or those whose label is sound; the column stays for `audit`."""
    row = {"choices": ["x", "y"], "answer": 0}
    rows = [{"question": label, **row, "error_type": label} for label in ("ok", "expert")]
    folder = str(write_files({"own.jsonl": lines(*rows)}))
    for labels, expected in (("all", ["ok", "expert"]), ("ok", ["ok"])):
        source = plan("mmlu_redux", dataset=folder, config={"labels": labels}).dataset_spec.source
        assert open_dataset(source, name="x").samples().values("error_type") == expected


def test_what_is_pinned_or_expected_has_its_source() -> None:
    """A commit has the address where it was found above it; a number that of who published it."""
    folder = Path(load_plan.__code__.co_filename).parent / "benchmarks"
    for name in NAMES:
        text = (folder / f"{name}.yaml").read_text(encoding="utf-8")
        for revision in re.findall(r"  revision: ([0-9a-f]+)\n", text):
            assert len(revision) == 40
            assert re.search("(?im)^# (?=.*https://).*revision", text), name
        for number in load_ready_made(name).about.expected:
            assert set(number) == {"model", "value", "setting", "source"}
            assert 0 < number["value"] < 1
            assert number["source"].startswith("https://")


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("piqa", {"goal": "?", "sol1": "x", "sol2": "y", "label": -1}),
        ("boolq", {"question": "?", "passage": "P.", "answer": None}),
        ("copa", {"premise": "P.", "choice1": "x", "choice2": "y", "question": "cause",
        "label": -1}),
        ("quality", {"question_unique_id": "1", "article": "P.", "question": "?",
        "options": ["x", "y"], "gold_label": 0, "difficult": 0}),
    ],
)  # fmt: skip
def test_hidden_labels_are_no_truth(name: str, row: Mapping[str, object]) -> None:
    """Of a test split, whose labels are -1 or missing, no row becomes a question with a made-up
    truth.
    """
    errors = check(name, dataset=str(write_files({"test.jsonl": lines(row)}))).errors
    assert errors
    assert {error.code for error in errors} <= {"E207", "E212"}


def test_files_of_another_form_are_refused_with_the_known_ones() -> None:
    """E206 shows the columns and what each form looks like."""
    folder = write_files({"x.jsonl": lines({"frage": "?"})})
    loaded = load_plan("mmlu", Options(dataset=str(folder)))
    (error,) = loaded.errors
    assert (error.code, loaded.jobs) == ("E206", ())
    assert "(columns: `frage`)" in error.message
    assert "CSV without a header line" in str(error.hint)


def test_the_test_files_of_a_whole_archive_are_chosen() -> None:
    """The others are left aside, and a notice says so."""
    write_files({"a_test.csv": "?,1,2,3,4,A\n", "a_dev.csv": "?,1,2,3,4,B\n"})
    loaded = load_plan("mmlu", Options(dataset="raw"))
    expected = ["only the files that match `*_test.csv` are read"]
    assert [notice.message for notice in loaded.notices] == expected
    assert len(open_dataset(plan("mmlu", dataset="raw").dataset_spec.source, name="x")) == 1


def test_a_folder_may_be_called_like_the_benchmark() -> None:
    """`--dataset mmlu` is that folder, not the dataset of the hub."""
    write_files({"a_test.csv": "?,1,2,3,4,A\n"}).rename("mmlu")
    assert len(open_dataset(plan("mmlu", dataset="mmlu").dataset_spec.source, name="x")) == 1


def test_config_chooses_the_dataset_of_the_hub() -> None:
    """Split and subset; an unknown value is refused."""
    source = plan("arc", config={"subset": "ARC-Easy", "split": "validation"}).dataset_spec.source
    assert isinstance(source, HuggingFaceSource)
    assert (source.name, source.split) == ("ARC-Easy", "validation")
    assert source.derive["category"] == "{{ sample.category | default('ARC-Easy') }}"
    loaded = load_plan("arc", Options(config={"split": "tset"}))
    assert [error.code for error in loaded.errors] == ["E111"]


def test_run_files_name_ready_made_tasks() -> None:
    """Beside tasks of their own.

    Each kind of dataset once; a dataset of the file's own comes first.
    """
    row = {"question": "?", "options": ["x", "y"], "answer": "A", "subject": "s"}
    Path("q.jsonl").write_text(lines(row))
    Path("run.yaml").write_text(
        """\
datasets:
  - {key: mine, display_name: Mine, source: {type: local, file_path: q.jsonl}}
evaluation:
  key: both
  task_specifications:
    - {task_key: arc, model_key: builtin/random}
    - {task_key: arc, task_config: {subset: ARC-Easy}, model_key: builtin/random}
    - {task_key: mmlu, task_config: {dataset: mine}, model_key: builtin/random}
"""
    )
    keys = [(job.key, job.dataset_spec.key) for job in sound(load_plan("run.yaml")).jobs]
    assert keys == [("arc", "arc"), ("arc-2", "arc-2"), ("mmlu", "mine")]


@pytest.mark.parametrize("name", NAMES)
def test_each_can_be_taken_as_a_project(name: str) -> None:
    """Its files load, say the same, and fit their schemas."""
    for file, text in write_project(load_ready_made(name)).items():
        Path(file).write_text(text, encoding="utf-8")
        plain = YAML(typ="safe").load(text)
        kind = file.removesuffix(".yaml").replace("examples", "dataset")
        assert list(validator(kind).iter_errors(plain)) == []
    mine, theirs = plan("run.yaml"), plan(name)
    assert mine.dataset_spec.source == theirs.dataset_spec.source
    assert mine.task.fingerprint == theirs.task.fingerprint


def test_a_project_may_begin_with_raw_files() -> None:
    """The dataset file says how they are read."""
    folder = write_files({"sums_test.csv": "1+1?,1,2,3,4,B\n"})
    for file, text in write_project(load_ready_made("mmlu"), str(folder)).items():
        Path(file).write_text(text, encoding="utf-8")
    source = plan("run.yaml").dataset_spec.source
    assert source == plan("mmlu", dataset=str(folder)).dataset_spec.source
    assert open_dataset(source, name="x").samples().row(0)["subject"] == "sums"


@pytest.mark.skipif(not REAL.is_dir(), reason="the folder with real files is not there")
@pytest.mark.parametrize(
    ("name", "path", "rows", "letters"),
    [
        pytest.param(
            *("mmlu", "mmlu/test", 14_042, {"A": 3222, "B": 3462, "C": 3582, "D": 3776}),
            marks=pytest.mark.skipif(not IS_LONG, reason="14,042 rows are for the long series"),
        ),
        ("mmlu", "mmlu/dev", 285, None),
        ("agieval", "agieval", 2_241, None),
        (
            "arc",
            "arc_challenge/ARC-Challenge-Test.jsonl",
            1_172,
            {"A": 266, "B": 311, "C": 310, "D": 285},
        ),
        ("arc", "arc_challenge", 1_172, None),
        ("jcommonsenseqa", "jcommonsenseqa", 1_119, None),
    ],
)
def test_real_raw_files_are_clean(
    name: str, path: str, rows: int, letters: dict[str, int] | None
) -> None:
    """Every row of the real files becomes a question with its truth among its choices."""
    result = check(name, dataset=str(REAL / path))
    assert (result.errors, result.tasks[0].rows) == ((), rows)
    if letters is not None:
        source = plan(name, dataset=str(REAL / path)).dataset_spec.source
        assert Counter(open_dataset(source, name="x").samples().values("answer")) == letters


@pytest.mark.skipif(not REAL.is_dir(), reason="the folder with real files is not there")
def test_rows_of_arc_that_are_labelled_by_numbers_get_letters() -> None:
    """26 questions call their options 1 to 4; the truth is the letter at the same place."""
    seen = 0
    for name in ("Test", "Dev"):
        path = REAL / "arc_challenge" / f"ARC-Challenge-{name}.jsonl"
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        job = plan("arc", dataset=str(path))
        samples = open_dataset(job.dataset_spec.source, name="x").samples()
        for raw, answer in zip(rows, samples.values("answer"), strict=True):
            labels = [choice["label"] for choice in raw["question"]["choices"]]
            assert answer == "ABCDE"[labels.index(raw["answerKey"])]
            seen += raw["answerKey"] in "1234"
    assert seen == 26


@pytest.mark.skipif(not REAL.is_dir(), reason="the folder with real files is not there")
def test_completions_of_helm_give_the_known_number(capsys: pytest.CaptureFixture[str]) -> None:
    """11,918 of 14,014 right, as by the letter: a bare `B` is the label, also where it is the text
    of another option.
    """
    column = "completions.anthropic_claude-3-opus-20240229"
    words = ["score", "mmlu", "--dataset", str(REAL / "helm_mmlu" / "helm_mmlu.jsonl")]
    assert main([*words, "--completion-column", column, "--out", "out", "--json", "-q"]) == 0
    (task,) = json.loads(capsys.readouterr().out)["tasks"]
    metric = task["metrics"][0]
    assert (metric["details"]["count"], metric["n"]) == (11_918, 14_014)
    (groups,) = metric["groups"]
    assert len(groups["values"]) == 57
    assert round(groups["macro"]["value"], 4) == 0.8458
