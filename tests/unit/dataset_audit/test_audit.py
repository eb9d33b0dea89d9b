from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from tests.lazy import stats
from tests.projects import SCORER, write_rows, write_task

import answerkey as ak
from answerkey.dataset_audit import audit as auditing
from answerkey.dataset_audit.audit import DatasetAudit, DatasetFinding
from answerkey.errors import AnswerkeyError, DataError, SpecError

SHARED = Path(__file__).parents[4] / "shared/data"
IS_LONG = bool(os.environ.get("ANSWERKEY_LONG"))
OPTIONS = ["Sydney", "Canberra", "Perth", "Hobart"]
WORDS = ["river", "planet", "sonata", "enzyme", "treaty"]
WORDS += ["matrix", "volcano", "novel", "engine", "virus"]
MEASURED = ("position_skew", "majority_letter", "longest_option")
Row = dict[str, object]


def write(folder: Path, rows: Sequence[Mapping[str, object]], name: str = "rows.jsonl") -> Path:
    """Write rows as JSON lines."""
    return write_rows(folder / name, rows)


def make_row(question: str, answer: object = "B", options: Sequence[object] = OPTIONS) -> Row:
    """Return a row with usual column names."""
    return {"question": question, "options": list(options), "answer": answer}


def make_rows(count: int) -> list[Row]:
    """Return questions that have nothing in common, with truths in all places."""
    return [
        make_row(
            f"Which {WORDS[number % 10]} did {WORDS[number // 10 % 10]}-{number} name?",
            "ABCD"[number % 4],
            [f"{WORDS[(number + place) % 10]} {number}{place}" for place in range(4)],
        )
        for number in range(count)
    ]


def audit(*paths: Path, **options: Any) -> DatasetAudit:  # noqa: ANN401 - the options of the verb
    """Return the audit of the only dataset."""
    (result,) = ak.audit_dataset(*paths, **options)
    return result


def find(result: DatasetAudit, kind: str) -> DatasetFinding:
    """Return the only finding of a kind."""
    (finding,) = [entry for entry in result.findings if entry.kind == kind]
    return finding


def count(result: DatasetAudit) -> dict[str, int]:
    """Return the findings with their counts."""
    return {finding.kind: finding.count for finding in result.findings}


def test_sound_questions_have_no_findings(tmp_path: Path) -> None:
    """Distinct questions with truths in all positions give no findings."""
    result = audit(write(tmp_path, make_rows(40)))
    assert result.findings == ()
    assert (result.rows, result.truths.n, result.truths.chance) == (40, 40, 0.25)
    shown = {"question": "question", "options": "options", "choices": "none"}
    assert result.fields == {**shown, "truth": "answer:label"}


DAMAGED = ["women\ufffds", "a fiancÃ©e", "a\x02b", "a\u200bb", "x &lt; y"]
DAMAGED += ["fiancée & co", "A&B; naïve"]  # these two are as they should be
ODD = {
    "what is missing or no choice": (
        [
            *make_rows(3),
            make_row("Where is it?", "E"),
            make_row("Where was it?", None),
            make_row("", "A"),
            make_row("Where will it be?", "A", ["x", "", None, "y"]),
            make_row("Only one?", "A", ["this"]),
        ],
        {"MISSING_QUESTION": 1, "MISSING_TRUTH": 1, "TRUTH_NOT_A_CHOICE": 1}
        | {"MISSING_OPTION": 1, "ONE_CHOICE": 1},
    ),
    "options that are the same; case makes them different": (
        [
            make_row("one", "A", ["Paris", "Paris ", "Lyon"]),
            make_row("two", "C", ["Paris", "Paris.", "Lyon"]),
            make_row("three", "A", ["Bb", "bb", "BB"]),
        ],
        {"RIGHT_OPTION_TWICE": 1, "DUPLICATE_OPTIONS": 2},
    ),
    "options that speak of the others": (
        [
            make_row("one?", "D", ["x1", "x2", "x3", "All of the above"]),
            make_row("two?", "A", ["y1", "y2", "y3", "None of these"]),
            make_row("three?", "A", ["z1", "z2", "z3", "Both A and B"]),
        ],
        {"REFERS_TO_LABELS": 1, "REFERS_TO_OTHERS": 2},
    ),
    "texts that were damaged": (
        [make_row(f"{text} {number}?") for number, text in enumerate(DAMAGED)],
        {"REPLACEMENT_CHARACTER": 1, "MOJIBAKE": 1, "CONTROL_CHARACTER": 2, "HTML_ENTITY": 1},
    ),
}


@pytest.mark.parametrize("case", ODD)
def test_odd_rows_are_counted_by_kind(tmp_path: Path, case: str) -> None:
    """Each kind is reported with its number of rows, the most serious first."""
    rows, kinds = ODD[case]
    assert list(count(audit(write(tmp_path, rows))).items()) == list(kinds.items())


def test_findings_say_where_and_what(tmp_path: Path) -> None:
    """Examples have file, line and a note; sentences have their shares."""
    path = write(tmp_path, ODD["what is missing or no choice"][0])
    truth = find(audit(path), "TRUTH_NOT_A_CHOICE")
    (example,) = truth.examples
    assert (example.sample, example.file, example.line) == ("000004", str(path), 4)
    assert example.note == "'E', choices A, B, C, D"
    assert truth.sentence == "1 of 8 (12.5 %) rows have a truth that is not among their choices."
    path = write(tmp_path, ODD["options that speak of the others"][0])
    finding = find(audit(path), "REFERS_TO_OTHERS")
    assert finding.sentence.endswith("such an option is right in 1 of 2 (50.0 %).")


def test_repeated_questions_are_found(tmp_path: Path) -> None:
    """The same question with the same options in any order is found, and so are truths that
    contradict.
    """
    text = "Which of these cities has been the capital of Australia since the year 1927?"
    rows = [
        *make_rows(20),
        make_row(text, "B"),
        make_row(text.upper().replace(" ", "  "), "A", ["Canberra", "Sydney", "Perth", "Hobart"]),
        make_row(text, "A"),
    ]
    result = audit(write(tmp_path, rows))
    assert count(result) == {"CONTRADICTING_TRUTHS": 1, "DUPLICATE_QUESTIONS": 2}
    (example,) = find(result, "DUPLICATE_QUESTIONS").examples
    assert example.note == "like 000022 (line 22) and 1 more"
    wide = "".join(chr(ord(sign) + 0xFEE0) if sign.isalnum() else sign for sign in text)
    different = make_row(text, "B", ["Sydney", "Canberra", "Perth", "Darwin"])  # another question
    for row, duplicates in ((make_row(wide, "B"), 1), (different, 0)):
        result = audit(write(tmp_path, [*make_rows(20), make_row(text, "B"), row]))
        assert count(result).get("DUPLICATE_QUESTIONS", 0) == duplicates


def test_several_files_are_one_dataset(tmp_path: Path) -> None:
    """A question that is in two files is found, with both places."""
    rows = make_rows(20)
    test = write(tmp_path, rows[:10], "test.jsonl")
    training = write(tmp_path, rows[9:], "train.jsonl")
    result = audit(test, training)
    assert (result.name, result.rows, result.files) == ("2 files", 21, (str(test), str(training)))
    (example,) = find(result, "DUPLICATE_QUESTIONS").examples
    assert (example.file, example.line) == (str(test), 10)
    assert example.note == "like 000011 (train.jsonl:1)"


def test_positions_and_baselines(tmp_path: Path) -> None:
    """Truths that favour a place are tested.

    The most frequent letter and the longest option beat chance.
    """
    rows = make_rows(200)
    for row in rows[:120]:
        row["answer"] = "A"
        row["options"] = ["a much longer option " + str(row["question"]), "b", "c", "d"]
    result = audit(write(tmp_path, rows))
    skew, letter, longest = attrgetter(*MEASURED)(result.truths)
    expected = stats.chisquare([140, 20, 20, 20])
    assert result.truths.places[4] == (140, 20, 20, 20)
    assert (skew.statistic, skew.p) == pytest.approx((expected.statistic, expected.pvalue))
    assert (letter.label, letter.value) == ("A", 0.7)
    assert longest.value > 0.6
    assert set(count(result)) == {"MAJORITY_LETTER", "LONGEST_OPTION", "POSITION_SKEW"}


def test_ties_are_shared_and_chance_is_per_row(tmp_path: Path) -> None:
    """A truth among two options that are equally long counts half.

    Rows with few choices are easier.
    """
    rows = [make_row("x?", "A", ["aaa", "bbb"]), make_row("y?", "C", ["aa", "b", "ccc", "dd"])]
    every = audit(write(tmp_path, rows)).truths
    assert every.longest_option is not None
    assert every.longest_option.value == 0.75
    assert (every.chance, dict(every.choice_counts)) == (0.375, {2: 1, 4: 1})


def test_blocks_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the rows are cut, the audit says the same."""
    path = write(tmp_path, [*make_rows(50), *make_rows(7), make_row("odd\ufffd?", "E")])
    whole = audit(path)
    monkeypatch.setattr(auditing, "BLOCK", 9)
    assert audit(path) == whole


def test_a_task_defines_where_the_parts_of_a_question_are(tmp_path: Path) -> None:
    """The templates of a task's scorer are used unchanged.

    Config values and a dataset may be given.
    """
    scorer = SCORER | {"ground_truth_choice": "{{ sample.key | upper }}", "choices": [*"ABCD"]}
    task = write_task(tmp_path / "task.yaml", scorer | {"options": "{{ sample.texts }}"})
    rows = [{"question": f"Which {key}?", "key": key, "texts": OPTIONS} for key in "bx"]
    path = write(tmp_path, rows)
    result = audit(task, dataset=str(path))
    assert count(result) == {"TRUTH_NOT_A_CHOICE": 1}
    assert result.fields["truth"] == "{{ sample.key | upper }}"
    with pytest.raises(SpecError):
        audit(task)
    with pytest.raises(SpecError, match="only data files can be audited together"):
        audit(task, path)


def test_a_missing_part_is_an_error_that_names_the_option(tmp_path: Path) -> None:
    """A file, a question column, names for the columns of a headerless file: each error says
    how.
    """
    with pytest.raises(SpecError, match="no file is given"):
        ak.audit_dataset()
    path = write(tmp_path, [{"frage": "Welche?", "answer": "A"}])
    with pytest.raises(DataError, match="no column holds the question") as caught:
        audit(path)
    assert "--column question=NAME" in str(caught.value.hint)
    with pytest.raises(DataError, match="there is no column `farge`"):
        audit(path, columns={"question": "farge"})
    assert audit(path, columns={"question": "frage"}).rows == 1
    path = tmp_path / "mmlu.csv"
    path.write_text('"Which, then?",p,q,r,s,B\nWhat?,p,q,r,s,C\n', encoding="utf-8")
    every = audit(path, header=["question", "A", "B", "C", "D", "answer"]).truths
    assert (every.n, dict(every.labels)) == (2, {"B": 1, "C": 1})
    with pytest.raises(AnswerkeyError, match="the row has 6 cells, the header has 2"):
        audit(path, header=["question", "answer"])


@pytest.mark.skipif(not SHARED.exists(), reason="the shared material is not there")
@pytest.mark.skipif(not IS_LONG, reason="14,014 questions are for the long series")
def test_known_facts_of_many_real_questions() -> None:
    """MMLU repeats 79 questions and prefers D."""
    mmlu = audit(SHARED / "helm_mmlu/helm_mmlu.jsonl")
    places = (3219, 3452, 3575, 3768)
    assert (mmlu.rows, mmlu.truths.places[4]) == (14_014, places)
    assert count(mmlu)["DUPLICATE_QUESTIONS"] == 79
    assert mmlu.truths.position_skew is not None
    assert mmlu.truths.position_skew.p == pytest.approx(stats.chisquare(places).pvalue)


@pytest.mark.skipif(not SHARED.exists(), reason="the shared material is not there")
def test_known_facts_of_real_questions() -> None:
    """ARC has three to five choices, AQuA labels its options."""
    arc = audit(SHARED / "arc_challenge/ARC-Challenge-Test.jsonl")
    assert (arc.truths.n, sorted(arc.truths.choice_counts)) == (1172, [3, 4, 5])
    assert {"1", "2", "3", "4"} <= set(arc.truths.labels)
    aqua = audit(SHARED / "agieval/aqua-rat.jsonl")
    assert (aqua.truths.n, aqua.truths.places[5]) == (254, (63, 58, 46, 53, 34))
