from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import answerkey as ak
from answerkey.errors import DataError, RunError
from answerkey.reader import EXTRACTORS
from answerkey.run_audit import audit as auditing
from answerkey.run_audit.audit import Audit, Finding, TaskAudit
from answerkey.runs import Run

LETTERS = ["A", "B", "C", "D"]
SHARED = Path(__file__).parents[4] / "shared/data/helm_mmlu"


def make_task(**fields: object) -> dict[str, Any]:
    """Return a task with one scorer that reads choices."""
    scorer = {
        "type": "string_equals_mcqa",
        "ground_truth_choice": "{{ sample.answer }}",
        "choices": LETTERS,
        **fields,
    }
    words = {"key": "small", "display_name": "Small", "description": "Some questions."}
    return {**words, "definition": {"scorers": [scorer]}}


def score(answers: str, texts: Sequence[str | None], **fields: object) -> Run:
    """Return a run in memory: one sample for each letter of `answers`."""
    rows = [{"answer": letter, "options": ["one", "two", "three", "four"]} for letter in answers]
    return ak.score(make_task(**fields), rows, list(texts))


def audit_only(run: Run, **options: Any) -> TaskAudit:  # noqa: ANN401 - the options of the verb
    """Return the audit of the only task of a run."""
    (task,) = ak.audit(run, **options).tasks
    return task


def find(task: TaskAudit, kind: str) -> Finding:
    """Return the only finding of a kind."""
    (finding,) = [one for one in task.findings if one.kind == kind]
    return finding


def kinds(task: TaskAudit) -> list[str]:
    """Return the kinds of all findings, in order."""
    return [one.kind for one in task.findings]


def test_every_rule_and_every_lens_reads_every_completion() -> None:
    """The run's own reading comes first, then the other rules, then the lenses; all on the same rows."""
    task = audit_only(score("BBCA", ["B", "Answer: B", " C", None]))
    names = ["first_character", "first_character_literal", "leading_label", "stated_answer", *EXTRACTORS]
    assert [one.name for one in task.readers] == names
    assert [one.kind for one in task.readers] == ["own", *["rule"] * 3, *["lens"] * len(EXTRACTORS)]
    assert {one.n for one in task.readers} == {4}
    counts = {one.name: (one.correct, one.invalid, one.gains, one.losses) for one in task.readers}
    assert counts["first_character"] == (2, 2, 0, 0)
    assert counts["first_character_literal"] == (1, 2, 0, 1)
    assert counts["stated_answer"] == (3, 1, 1, 0)
    assert counts["deepeval"] == (1, 3, 0, 1)


def test_what_another_rule_would_gain_is_named() -> None:
    """Samples that flip are counted and the first of them named, against the run and between all rules."""
    task = audit_only(score("BBBB", ["B", "Answer: B", "(B)", "B."]))
    stated = task.find_reader("stated_answer")
    assert stated is not None
    assert (stated.changes, stated.gains, stated.gained, stated.lost) == (2, 2, ("000002", "000003"), ())
    assert (task.flips, task.flipped) == (2, ("000002", "000003"))


def test_the_own_rule_is_the_one_of_the_scorer() -> None:
    """Another `extraction` is the run's own reading, and the first character one of the others."""
    task = audit_only(score("BB", ["B", "Answer: B"], extraction="stated_answer"))
    own = task.find_reader("stated_answer")
    assert (task.rule, own) == ("stated_answer", task.own)
    assert own is not None
    assert own.correct == 2
    first = task.find_reader("first_character")
    assert first is not None
    assert (first.kind, first.correct, first.losses) == ("rule", 1, 1)


def test_a_pattern_is_an_own_reading_too() -> None:
    """With a pattern all four rules are others."""
    task = audit_only(score("BB", ["x=B", "B"], extraction={"pattern": "x=(.)"}))
    assert [one.kind for one in task.readers][:5] == ["own", *["rule"] * 4]
    assert task.own is not None
    assert task.own.correct == 1


def test_chance_kappa_and_recalls() -> None:
    """Chance is the mean of 1/K, kappa and recalls are of letters true and predicted."""
    task = audit_only(score("AABB", ["A", "A", "B", "C"]))
    assert (task.chance, task.choice_counts) == (0.25, {4: 4})
    assert task.corrected == pytest.approx((0.75 - 0.25) / 0.75)
    assert task.recalls == {"A": 1.0, "B": 0.5}
    assert task.spread == pytest.approx(25.0)
    assert task.kappa == pytest.approx((0.75 - 6 / 16) / (1 - 6 / 16))


def test_reasons_say_what_is_stated_all_the_same() -> None:
    """INVALID completions by reason, with how many state an answer and how many the right one."""
    task = audit_only(score("BCDA", ["Answer: B", "Answer: B", "no idea", "A"]))
    found = {one.reason: (one.count, one.stated, one.right, one.example) for one in task.reasons}
    assert found == {"PART_OF_A_WORD": (2, 2, 1, "000001"), "NOT_A_CHOICE": (1, 0, 0, "000003")}


def test_rows_that_do_not_count_are_left_out() -> None:
    """What an action keeps out of the metrics is no part of the audit."""
    task = make_task()
    where = {"expression": "{{ sample.answer }}", "op": "equals", "value": "D"}
    task["definition"]["actions"] = [{"key": "late", "action": "exclude_from_metrics", "filter": where}]
    found = audit_only(ak.score(task, [{"answer": letter} for letter in "ADAD"], ["A", "D", "A", "D"]))
    assert (found.n, found.left_out) == (2, {"excluded:late": 2})


def test_parts_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An audit in blocks of any size says the same."""
    texts = ["A", "B", "Answer: C", "(D)", None, "A or B", "B.", " C", "nothing", "The answer is D."] * 7
    run = score("ABCDABCDAB" * 7, texts)
    whole = ak.audit(run)
    for size in (1, 3, 64):
        monkeypatch.setattr(auditing, "BLOCK", size)
        assert ak.audit(run) == whole


def test_worker_processes_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An audit on several processes says the same."""
    run = score("ABCD" * 20, ["A", "Answer: B", "C", "x"] * 20)
    whole = ak.audit(run)
    monkeypatch.setattr(auditing, "BLOCK", 30)
    monkeypatch.setattr(auditing, "WORKER_ROWS", 1)
    assert ak.audit(run) == whole


def test_trials_have_no_interval() -> None:
    """Completions of the same sample are not independent: they are counted, and no interval is claimed."""
    task = make_task()
    task["definition"]["trials"] = {"num_trials": 2}
    rows = [{"sample_id": one, "answer": "A"} for one in ("a", "b")]
    completions = [
        {"sample_id": one, "trial": trial, "completion": "A"} for one in ("a", "b") for trial in (0, 1)
    ]
    found = audit_only(ak.score(task, rows, completions))
    assert (found.n, found.samples) == (4, 2)
    assert found.own is not None
    assert found.own.interval is None
    assert found.own.reach == pytest.approx((0.3423802275066531, 1.0))


def test_a_scorer_that_reads_no_choices_leaves_the_completions_to_look_at() -> None:
    """Without choices there are no readers; what is odd about the completions is found all the same."""
    words = {"key": "free", "display_name": "Free", "description": "Free answers."}
    scorer = {"type": "string_equals", "ground_truth": "{{ sample.answer }}"}
    run = ak.score({**words, "definition": {"scorers": [scorer]}}, [{"answer": "x"}] * 30, ["same"] * 30)
    task = audit_only(run)
    assert (task.readers, task.own, task.chance) == ((), None, None)
    assert kinds(task) == ["COMPLETIONS_ALIKE"]


def test_format_is_told_from_knowledge() -> None:
    """A rule that moves the accuracy out of its interval gets a sentence and an advice."""
    texts = ["Therefore the answer is B."] * 20 + ["B"] * 20
    task = audit_only(score("B" * 40, texts))
    finding = find(task, "FORMAT")
    assert finding.sentence == (
        "50.0 % by the first character; 100.0 % by the answers that the texts state: the difference is"
        " format, not knowledge."
    )
    assert finding.step.startswith("try `extraction: stated_answer`")
    assert finding.examples == ("000001", "000002", "000003", "000004", "000005")


def test_the_literal_rule_is_never_advised() -> None:
    """Gains by reading `Based` as a B are no reason to change the rule."""
    task = audit_only(score("B" * 40, ["Based on what I know, hard to tell."] * 40))
    literal = task.find_reader("first_character_literal")
    assert literal is not None
    assert literal.correct == 40
    assert "FORMAT" not in kinds(task)


def test_completions_that_are_all_alike() -> None:
    """The same text for every question is found, and not told once more as one letter."""
    task = audit_only(score("ABCD" * 10, ["A"] * 40))
    assert find(task, "COMPLETIONS_ALIKE").sentence == (
        "All 40 completions are the same: 'A'. Nothing was answered question by question."
    )
    assert "ONE_LETTER" not in kinds(task)
    assert find(task, "CHANCE_LEVEL").sentence.startswith(
        "The accuracy of 25.0 % [14.2, 40.2] is not above the chance level of 25.0 %: guessing would do"
    )


def test_one_letter_in_many_words() -> None:
    """The same letter with different texts is found, with how often it is true."""
    task = audit_only(score("ABCD" * 10, [f"A. Because of {number}" for number in range(40)]))
    assert find(task, "ONE_LETTER").numbers == {"letter": "A", "predicted": 40, "valid": 40, "true": 10}


def test_a_key_that_is_shifted() -> None:
    """Predictions that are always one letter off are below chance, and the audit says by how much."""
    task = audit_only(score("ABCD" * 10, ["B", "C", "D", "A"] * 10))
    finding = find(task, "CHANCE_LEVEL")
    assert "is below the chance level" in finding.sentence
    assert (
        finding.step
        == "with every truth moved by one letter, 40 of 40 (100.0 %) would be right: check the key"
    )


def test_a_letter_that_is_never_predicted() -> None:
    """A truth of many samples that no completion names is found."""
    task = audit_only(score("ABCD" * 12, ["A", "B", "C", "C"] * 12))
    assert find(task, "NEVER_PREDICTED").numbers == {"D": 12}


def test_a_letter_that_is_favoured() -> None:
    """A letter that is predicted far more often than it is true is found, with RStd."""
    texts = (["A"] * 25) + ["A"] * 15 + ["B"] * 10 + ["C"] * 25 + ["D"] * 25
    finding = find(audit_only(score("A" * 25 + "B" * 25 + "C" * 25 + "D" * 25, texts)), "FAVOURED_LETTER")
    assert finding.numbers == {"letter": "A", "predicted": 40, "true": 25}
    assert finding.sentence.endswith("The recalls of the letters spread by 26.0 points (RStd).")


def test_first_character_and_statement_that_disagree() -> None:
    """A Roman numeral that opens an enumeration reads as a choice, and the text states another."""
    run = ak.score(
        make_task(choices=list("ABCDEFGHI")),
        [{"answer": "B"}] * 2,
        ["I. The first is true.\nII. The second is false.\nSo the answer is B.", "B"],
    )
    finding = find(audit_only(run), "FIRST_AND_STATED_DISAGREE")
    assert finding.numbers == {"count": 1, "first_right": 0, "stated_right": 1}
    assert finding.examples == ("000001",)


def test_completions_that_are_cut_off() -> None:
    """A thought that is never closed is cut off, and so is a single word where all texts are short."""
    texts = ["<think> so if we look at this"] * 3 + ["A"] * 27
    assert find(audit_only(score("A" * 30, texts)), "CUT_OFF").numbers == {
        "cut_off": 3,
        "of": 30,
        "invalid": 3,
    }
    stubs = find(audit_only(score("A" * 30, ["To"] * 3 + ["A"] * 27)), "CUT_OFF")
    assert "they look cut off after a token or two" in stubs.sentence
    assert stubs.examples == ("000001", "000002", "000003")


def test_refusals_and_empty_replies() -> None:
    """Replies without text are told once they are more than a few."""
    task = audit_only(score("A" * 30, [None] * 3 + ["A"] * 27))
    assert find(task, "NO_TEXT").numbers == {"count": 3, "of": 30}


def test_few_completions_show_nothing() -> None:
    """Five completions are neither alike nor at chance level."""
    assert kinds(audit_only(score("AAAAA", ["A"] * 5))) == []


def test_an_empty_choice_of_tasks_is_refused() -> None:
    """A task that the run does not have is an error that names those it has."""
    with pytest.raises(RunError, match="the run has no task `other`"):
        ak.audit(score("A", ["A"]), task="other")


def write_project(folder: Path, prompt: str) -> Path:
    """Return a task file whose prompt is this, with its dataset beside it."""
    task = make_task(options="{{ sample.options }}")
    task["definition"]["solver"] = {
        "type": "single_turn_solver",
        "input_builder": {"type": "chat_completion", "input_messages": [{"role": "user", "content": prompt}]},
    }
    rows = [
        {
            "question": f"Question {number}?",
            "answer": "ABCD"[number % 4],
            "options": ["one", "two", "six", "ten"],
        }
        for number in range(30)
    ]
    (folder / "task.yaml").write_text(json.dumps(task), encoding="utf-8")
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return folder / "task.yaml"


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [("{{ sample.question }}", False), ("{question}\nAnswer:", True), ("{{ '{{ question }}' }}", True)],
)
def test_placeholders_that_nobody_filled(tmp_path: Path, prompt: str, *, expected: bool) -> None:
    """A placeholder that stands in every prompt is found; a filled one is not."""
    task = write_project(tmp_path, prompt)
    run = ak.run(task, dataset=tmp_path / "rows.jsonl", model="builtin/random", out=tmp_path / "run")
    assert ("UNFILLED_PLACEHOLDER" in kinds(audit_only(run))) is expected


def test_a_run_whose_dataset_is_gone(tmp_path: Path) -> None:
    """Kept completions are enough, unless the rules are told the options."""
    task = write_project(tmp_path, "{{ sample.question }}")
    rows = tmp_path / "rows.jsonl"
    told = ak.run(task, dataset=rows, model="builtin/random", out=tmp_path / "told")
    plain = json.loads(task.read_text(encoding="utf-8"))
    del plain["definition"]["scorers"][0]["options"]
    task.write_text(json.dumps(plain), encoding="utf-8")
    untold = ak.run(task, dataset=rows, model="builtin/random", out=tmp_path / "untold")
    rows.unlink()
    with pytest.raises(RunError, match="cannot be opened again"):
        ak.audit(told)
    found = ak.audit(untold)
    assert found.tasks[0].n == 30
    assert [str(one) for one in found.notices] == [
        "warning: the dataset of `small` is gone: lenses do not see the options"
    ]


def test_clean_rows_have_metrics_of_their_own(tmp_path: Path) -> None:
    """Every metric, and the accuracy by each rule, is there on all rows and on clean ones."""
    (tmp_path / "task.yaml").write_text(json.dumps(make_task()), encoding="utf-8")
    rows = [
        {"answer": "A", "completion": "A", "quality": "OK"},
        {"answer": "A", "completion": "Answer: A", "quality": "ok"},
        {"answer": "A", "completion": "B", "quality": "wrong_key"},
        {"answer": "A", "completion": "C", "quality": None},
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    run = ak.run(tmp_path / "task.yaml", dataset=tmp_path / "rows.jsonl", out=tmp_path / "run")
    clean = audit_only(run, label_quality="quality").clean
    assert clean is not None
    assert (clean.n, clean.values, dict(clean.labels)) == (2, ("ok",), {"ok": 2, "(none)": 1, "wrong_key": 1})
    assert clean.metrics["Accuracy"].value == 0.5
    assert clean.metrics["Accuracy"].n == 2
    assert {one.name: one.correct for one in clean.readers}["stated_answer"] == 2
    other = audit_only(run, label_quality="quality", clean=["wrong_key"]).clean
    assert other is not None
    assert other.n == 1
    with pytest.raises(DataError, match="has no column `qualty`"):
        ak.audit(run, label_quality="qualty")


@pytest.mark.skipif(not SHARED.exists(), reason="the shared material is not there")
def test_known_values_of_real_completions(tmp_path: Path) -> None:
    """On 14,014 completions of a model that writes a bare letter every careful rule reads the same."""
    (tmp_path / "task.yaml").write_text(json.dumps(make_task()), encoding="utf-8")
    run = ak.run(
        tmp_path / "task.yaml",
        dataset=SHARED / "helm_mmlu.jsonl",
        completion_column="completions.anthropic_claude-3-opus-20240229",
        out=tmp_path / "run",
    )
    task = audit_only(run)
    assert {one.name: one.correct for one in task.readers}["stated_answer"] == 11_918
    assert {one.name: one.correct for one in task.readers}["HELM"] == 11_918
    assert task.chance == 0.25


def test_an_audit_says_where_and_how_it_stands() -> None:
    """An audit has the run's status, and the findings of all tasks together."""
    found = ak.audit(score("ABCD" * 10, ["A"] * 40))
    assert isinstance(found, Audit)
    assert (found.path, found.status) == (None, "complete")
    assert found.findings[0].kind == "COMPLETIONS_ALIKE"


def test_an_audit_shows_itself() -> None:
    """Printed, an audit is what the command prints; in a notebook nothing comes unescaped from data."""
    found = ak.audit(score("ABCD" * 10, ["<b>A</b>"] * 40))
    assert "Findings" in str(found)
    assert "&lt;b&gt;A" in found._repr_html_()


def test_at_most_so_many_completions_are_read() -> None:
    """They are drawn by nothing but their number, the same ones again; the task says of how many."""
    run = score("AB" * 50, ["A"] * 100)
    task = audit_only(run, most=30)
    assert (task.n, task.drawn_from) == (30, 100)
    assert task == audit_only(run, most=30)
    assert {one.n for one in task.readers} == {30}
    assert audit_only(run, most=100).drawn_from is None
    assert audit_only(run).n == 100


def test_trials_of_a_sample_are_drawn_together() -> None:
    """Of samples that were asked several times, all completions are read, or none."""
    task = {**make_task(), "definition": {**make_task()["definition"], "trials": {"num_trials": 3}}}
    rows = [{"answer": "A", "options": ["one", "two", "three", "four"]}] * 10
    ids = [(f"{row:06d}", trial) for row in range(1, 11) for trial in range(3)]
    completions = [{"sample_id": name, "trial": trial, "completion": "A"} for name, trial in ids]
    found = audit_only(ak.score(task, rows, completions), most=12)
    assert (found.n, found.samples, found.drawn_from) == (12, 4, 30)


def test_what_is_drawn_lies_in_every_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """However the rows are cut, the same completions are read."""
    run = score("AB" * 50, ["A", "B", "Answer: A", "C"] * 25)
    whole = audit_only(run, most=20)
    monkeypatch.setattr(auditing, "fit_rows", lambda *_: 7)
    monkeypatch.setattr(auditing, "WORKER_ROWS", 1000)
    assert audit_only(run, most=20) == whole
