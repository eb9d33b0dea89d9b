from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from answerkey.cli import main
from answerkey.datasets.dataset import open_dataset
from answerkey.datasets.sources import HuggingFaceSource
from answerkey.errors import SpecError
from answerkey.evaluate.runner import check
from answerkey.spec import Overrides, Specification, load_plan, load_task, schema
from answerkey.spec.ready_made import find_ready_made, list_ready_made, load_ready_made, write_project

from .conftest import value_of

NAMES = [
    *("agieval", "arc", "bbq", "cmmlu", "commonsenseqa", "hellaswag", "jcommonsenseqa", "logiqa", "medmcqa"),
    *("mmlu", "mmlu_pro", "openbookqa", "truthfulqa_mc"),
]
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
#: Benchmark, files of one form, and what its first row becomes: question, options, answer, category.
FORMS: list[tuple[str, dict[str, str], tuple[str, list[str], str, str | None]]] = [
    ("mmlu", {"sums_test.csv": "1+1?,1,2,3,4,B\n"}, ("1+1?", ["1", "2", "3", "4"], "B", "sums")),
    ("mmlu", {"law_test.csv": "question,A,B,C,D,answer\n?,1,2,3,4,C\n"}, ("?", ["1", "2", "3", "4"], "C", "law")),  # noqa: E501 - one case, one line
    ("mmlu", {"all.jsonl": lines({"question": "?", "subject": "law", "choices": ["x", "y"], "answer": 1})}, ("?", ["x", "y"], "B", "law")),  # noqa: E501 - one case, one line
    ("mmlu", {"own.jsonl": lines({"question": "?", "options": ["x", "y"], "answer": "A"})}, ("?", ["x", "y"], "A", "all")),  # noqa: E501 - one case, one line
    ("mmlu_pro", {"test.jsonl": lines({"question_id": 7, "question": "?", "options": ["x", "y"], "answer": "B", "category": "law"})}, ("?", ["x", "y"], "B", "law")),  # noqa: E501 - one case, one line
    ("arc", {"ARC-Easy-Test.jsonl": lines(STEM)}, ("Which?", ["x", "y"], "B", "ARC-Easy")),
    ("arc", {"test.jsonl": lines({**LABELS, "question": "?"})}, ("?", ["x", "y"], "B", "ARC-Challenge")),
    ("hellaswag", {"hellaswag_val.jsonl": lines({"ctx": "He", "endings": ["a", "b", "c", "d"], "label": 2, "activity_label": "Run", "source_id": "wikihow~1"})}, ("Run: He", ["a", "b", "c", "d"], "C", "wikihow")),  # noqa: E501 - one case, one line
    ("truthfulqa_mc", {"mc_task.json": json.dumps([{"question": "?", "mc1_targets": {"x": 0, "y": 1}, "mc2_targets": {"x": 0, "y": 1}}])}, ("?", ["x", "y"], "B", "all")),  # noqa: E501 - one case, one line
    ("truthfulqa_mc", {"t.jsonl": lines({"question": "?", "mc1_targets": {"choices": ["x", "y"], "labels": [1, 0]}})}, ("?", ["x", "y"], "A", "all")),  # noqa: E501 - one case, one line
    ("commonsenseqa", {"dev_rand_split.jsonl": lines(STEM)}, ("Which?", ["x", "y"], "B", "things")),
    ("commonsenseqa", {"v.jsonl": lines({**LABELS, "question": "?", "question_concept": "c"})}, ("?", ["x", "y"], "B", "c")),  # noqa: E501 - one case, one line
    ("openbookqa", {"test.jsonl": lines(STEM)}, ("Which?", ["x", "y"], "B", None)),
    ("openbookqa", {"t.jsonl": lines({**LABELS, "question_stem": "?"})}, ("?", ["x", "y"], "B", None)),
    ("medmcqa", {"dev.json": lines({"id": "a", "question": "?", **OPTIONS, "cop": 4, "subject_name": "ENT"})}, ("?", ["w", "x", "y", "z"], "D", "ENT")),  # noqa: E501 - one case, one line
    ("medmcqa", {"v.jsonl": lines({"id": "a", "question": "?", **OPTIONS, "cop": 0, "subject_name": "ENT"})}, ("?", ["w", "x", "y", "z"], "A", "ENT")),  # noqa: E501 - one case, one line
    ("logiqa", {"Test.txt": "\nc\nP.\nQ?\nA. w\nB.x\nC. y\nD. z\n"}, ("P.\n\nQ?", ["w", "x", "y", "z"], "C", None)),  # noqa: E501 - one case, one line
    ("logiqa", {"test.txt": lines({"text": "P.", "question": "Q?", "options": ["x", "y"], "answer": 1})}, ("P.\n\nQ?", ["x", "y"], "B", None)),  # noqa: E501 - one case, one line
    ("logiqa", {"t.jsonl": lines({"context": "P.", "query": "Q?", "options": ["x", "y"], "correct_option": 0})}, ("P.\n\nQ?", ["x", "y"], "A", None)),  # noqa: E501 - one case, one line
    ("agieval", {"lsat-ar.jsonl": lines({"passage": "P.", "question": "Q?", "options": ["(A)x", "(B) y"], "label": "B", "answer": None}), "math.jsonl": lines({"passage": None, "question": "Q?", "options": None, "label": None, "answer": "7"})}, ("P.\n\nQ?", ["x", "y"], "B", "lsat-ar")),  # noqa: E501 - one case, one line
    ("cmmlu", {"agronomy.csv": ",Question,A,B,C,D,Answer\n0,?,w,x,y,z,D\n"}, ("?", ["w", "x", "y", "z"], "D", "agronomy")),  # noqa: E501 - one case, one line
    ("jcommonsenseqa", {"valid-v1.3.json": lines({"q_id": 5, "question": "?", **{f"choice{n}": str(n) for n in range(5)}, "label": 2})}, ("?", ["0", "1", "2", "3", "4"], "C", None)),  # noqa: E501 - one case, one line
    ("bbq", {"Age.jsonl": lines({"context": "P.", "question": "Q?", **{f"ans{n}": str(n) for n in range(3)}, "label": 2, "category": "Age", "context_condition": "ambig"})}, ("P.\n\nQ?", ["0", "1", "2"], "C", "Age")),  # noqa: E501 - one case, one line
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
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def plan(name: str, **overrides: Any) -> Specification:  # noqa: ANN401 - the fields of Overrides
    """Return the only specification of a ready-made task."""
    return value_of(load_plan(name, Overrides(**overrides))).specifications[0]


def test_these_are_ready() -> None:
    """Thirteen benchmarks; a path that is there comes before a name."""
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
    """Title, languages, options, chance where it is one number, citation, licence, homepage, forms."""
    ready = load_ready_made(name)
    about = ready.about
    texts = (about.title, about.summary, about.options, about.citation, about.licence, *about.languages)
    assert all(isinstance(text, str) and text == text.strip() != "" for text in texts)
    assert about.homepage.startswith("https://")
    assert about.chance is None or 0 < about.chance < 1
    assert about.chance is not None or name in {"agieval", "truthfulqa_mc"}
    assert ready.own_forms
    assert all(form.description and form.expects for form in ready.own_forms)


@pytest.mark.parametrize("name", NAMES)
def test_each_is_a_task_that_loads(name: str) -> None:
    """Also alone, as a task file would; and its dataset is on the hub."""
    specification = plan(name)
    assert specification.task.key == name
    assert isinstance(specification.dataset.source, HuggingFaceSource)
    assert "/" in specification.dataset.source.path
    assert load_task(name).errors == []


def test_no_question_is_shipped() -> None:
    """The files hold prompts and templates, and are short."""
    folder = Path(load_plan.__code__.co_filename).parent / "benchmarks"
    assert sorted(path.stem for path in folder.iterdir()) == NAMES
    assert all(path.stat().st_size < 6000 for path in folder.iterdir())


@pytest.mark.parametrize("as_folder", [True, False])
@pytest.mark.parametrize(("name", "files", "row"), FORMS)
def test_raw_files_are_read_as_the_task_wants_them(
    name: str, files: dict[str, str], row: tuple[str, list[str], str, str | None], *, as_folder: bool
) -> None:
    """By their columns, from a folder or one by one; nothing is wrong with the rows."""
    folder = write_files(files)
    given = str(folder if as_folder else folder / next(iter(files)))
    specification = plan(name, dataset=given)
    dataset = open_dataset(specification.dataset.source, name="x")
    sample = dataset.samples().row(0)
    category = load_ready_made(name).about.category
    found = (sample["question"], sample["options"], sample["answer"], category and sample[category])
    assert found == row
    assert len(dataset) == 1
    assert check(name, dataset=given).errors == ()


def test_files_of_another_form_are_refused_with_the_known_ones() -> None:
    """E206 shows the columns and what each form looks like."""
    folder = write_files({"x.jsonl": lines({"frage": "?"})})
    loaded = load_plan("mmlu", Overrides(dataset=str(folder)))
    (error,) = loaded.errors
    assert (error.code, loaded.value) == ("E206", None)
    assert "(columns: `frage`)" in error.message
    assert "CSV without a header line" in str(error.hint)


def test_the_test_files_of_a_whole_archive_are_chosen() -> None:
    """The others are left aside, and a notice says so."""
    write_files({"a_test.csv": "?,1,2,3,4,A\n", "a_dev.csv": "?,1,2,3,4,B\n"})
    loaded = load_plan("mmlu", Overrides(dataset="raw"))
    assert [notice.message for notice in loaded.notices] == [
        "of 2 files only those that match `*_test.csv` are read: 1"
    ]
    assert len(open_dataset(plan("mmlu", dataset="raw").dataset.source, name="x")) == 1


def test_config_chooses_the_dataset_of_the_hub() -> None:
    """Split and subset; an unknown value is refused."""
    source = plan("arc", config={"subset": "ARC-Easy", "split": "validation"}).dataset.source
    assert isinstance(source, HuggingFaceSource)
    assert (source.name, source.split) == ("ARC-Easy", "validation")
    assert source.derive["category"] == "{{ sample.category | default('ARC-Easy') }}"
    loaded = load_plan("arc", Overrides(config={"split": "tset"}))
    assert [error.code for error in loaded.errors] == ["E111"]


def test_run_files_name_ready_made_tasks() -> None:
    """Beside tasks of their own; each kind of dataset once; a dataset of the file's own comes first."""
    Path("q.jsonl").write_text(lines({"question": "?", "options": ["x", "y"], "answer": "A", "subject": "s"}))
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
    keys = [(one.key, one.dataset.key) for one in value_of(load_plan("run.yaml")).specifications]
    assert keys == [("arc", "arc"), ("arc-2", "arc-2"), ("mmlu", "mine")]


@pytest.mark.parametrize("name", NAMES)
def test_each_can_be_taken_as_a_project(name: str) -> None:
    """Its files load, say the same, and fit their schemas."""
    files = write_project(load_ready_made(name))
    for file, text in files.items():
        Path(file).write_text(text, encoding="utf-8")
        plain = YAML(typ="safe").load(text)
        kind = file.removesuffix(".yaml")
        assert list(Draft202012Validator(schema(kind)).iter_errors(plain)) == []  # type: ignore[arg-type]
    mine, theirs = plan("run.yaml"), plan(name)
    assert mine.dataset.source == theirs.dataset.source
    assert mine.task.fingerprint == theirs.task.fingerprint


def test_a_project_may_begin_with_raw_files() -> None:
    """The dataset file says how they are read."""
    folder = write_files({"sums_test.csv": "1+1?,1,2,3,4,B\n"})
    for file, text in write_project(load_ready_made("mmlu"), str(folder)).items():
        Path(file).write_text(text, encoding="utf-8")
    source = plan("run.yaml").dataset.source
    assert source == plan("mmlu", dataset=str(folder)).dataset.source
    assert open_dataset(source, name="x").samples().row(0)["subject"] == "sums"


@pytest.mark.skipif(not REAL.is_dir(), reason="the folder with real files is not there")
@pytest.mark.parametrize(
    ("name", "path", "rows", "letters"),
    [
        ("mmlu", "mmlu/test", 14_042, {"A": 3222, "B": 3462, "C": 3582, "D": 3776}),
        ("agieval", "agieval", 2_241, None),
        ("arc", "arc_challenge/ARC-Challenge-Test.jsonl", 1_172, {"A": 266, "B": 311, "C": 310, "D": 285}),
        ("arc", "arc_challenge", 1_172, None),
        ("jcommonsenseqa", "jcommonsenseqa", 1_119, None),
    ],
)
def test_real_raw_files_are_clean(name: str, path: str, rows: int, letters: dict[str, int] | None) -> None:
    """Every row of the real files becomes a question with its truth among its choices."""
    found = check(name, dataset=str(REAL / path))
    assert found.errors == ()
    assert found.tasks[0].rows == rows
    if letters is not None:
        frame = open_dataset(plan(name, dataset=str(REAL / path)).dataset.source, name="x").samples().frame
        assert dict(sorted(frame["answer"].value_counts().rows())) == letters


@pytest.mark.skipif(not REAL.is_dir(), reason="the folder with real files is not there")
def test_rows_of_arc_that_are_labelled_by_numbers_get_letters() -> None:
    """26 questions call their options 1 to 4; the truth is the letter at the same place."""
    seen = 0
    for name in ("Test", "Dev"):
        path = REAL / "arc_challenge" / f"ARC-Challenge-{name}.jsonl"
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        samples = open_dataset(plan("arc", dataset=str(path)).dataset.source, name="x").samples()
        for raw, answer in zip(rows, samples.frame["answer"], strict=True):
            labels = [one["label"] for one in raw["question"]["choices"]]
            assert answer == "ABCDE"[labels.index(raw["answerKey"])]
            seen += raw["answerKey"] in "1234"
    assert seen == 26


@pytest.mark.skipif(not REAL.is_dir(), reason="the folder with real files is not there")
def test_recorded_completions_of_helm_give_the_known_number(capsys: pytest.CaptureFixture[str]) -> None:
    """11,916 of 14,014 right, two less than by the letter: a bare `B` that is the text of C is INVALID."""
    column = "completions.anthropic_claude-3-opus-20240229"
    words = ["score", "mmlu", "--dataset", str(REAL / "helm_mmlu" / "helm_mmlu.jsonl")]
    assert main([*words, "--completion-column", column, "--out", "out", "--json", "-q"]) == 0
    (task,) = json.loads(capsys.readouterr().out)["tasks"]
    metric = task["metrics"][0]
    assert (metric["details"]["count"], metric["n"]) == (11_916, 14_014)
    (groups,) = metric["groups"]
    assert len(groups["values"]) == 57
    assert round(groups["macro"]["value"], 4) == 0.8455
