from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import pytest
from tests.projects import SCORER, describe_solver, make_task, write_rows, write_task

import answerkey as ak
from answerkey.errors import RunError
from answerkey.reader import EXTRACTORS
from answerkey.run_audit import audit as auditing
from answerkey.run_audit.findings import ReaderCounts, TaskAudit
from answerkey.run_audit.text import draw_both_rules, draw_imported_verdicts
from answerkey.runs import Run
from answerkey.text import plain_text
from answerkey.types import RULE_NAMES

LETTERED = SCORER | {"choices": ["A", "B", "C", "D"]}
SHARED = Path(__file__).parents[4] / "shared/data/helm_mmlu"


def score(answers: str, texts: Sequence[str | None], **fields: object) -> Run:
    """Return a run in memory: one sample for each letter of `answers`."""
    rows = [{"answer": letter, "options": ["one", "two", "three", "four"]} for letter in answers]
    return ak.score(make_task(LETTERED | fields), rows, list(texts))


def score_trials(samples: int, trials: int) -> Run:
    """Return a run in which every trial of every sample is right."""
    numbers = [divmod(number, trials) for number in range(samples * trials)]
    replies = [{"sample_id": f"{1 + row:06d}", "trial": n, "completion": "A"} for row, n in numbers]
    task = make_task(LETTERED, trials={"num_trials": trials})
    return ak.score(task, [{"answer": "A"}] * samples, replies)


def audit_only(run: Run, **options: Any) -> TaskAudit:  # noqa: ANN401 - the options of the verb
    """Return the audit of the only task of a run."""
    (task,) = ak.audit(run, **options).tasks
    return task


def find_reader(task: TaskAudit, name: str) -> ReaderCounts:
    """Return what a rule or lens reads."""
    (reader,) = [reader_of_rule for reader_of_rule in task.readers if reader_of_rule.name == name]
    return reader


def kinds(task: TaskAudit) -> list[str]:
    """Return the kinds of all findings, in order."""
    return [finding.kind for finding in task.findings]


def test_every_rule_and_every_lens_reads_every_completion() -> None:
    """The run's own reading comes first, then the other rules, then the lenses.

    All on the same rows. Samples that flip are counted and the first of them named, against the run
    and between all rules.
    """
    task = audit_only(score("BBCA", ["B", "Answer: B", " C", None]))
    assert [reader.name for reader in task.readers] == [*RULE_NAMES, *EXTRACTORS]
    reader_kinds = ["own", *["rule"] * 3, *["lens"] * len(EXTRACTORS)]
    assert [reader.kind for reader in task.readers] == reader_kinds
    assert {reader.n for reader in task.readers} == {4}
    counts = {}
    for reader in task.readers:
        counts[reader.name] = (reader.correct, reader.invalid, reader.gains, reader.losses)
    assert counts["first_character"] == (2, 2, 0, 0)
    assert counts["first_character_literal"] == (1, 2, 0, 1)
    assert (counts["stated_answer"], counts["deepeval"]) == ((3, 1, 1, 0), (1, 3, 0, 1))
    task = audit_only(score("BBBB", ["B", "Answer: B", "(B)", "B."]))
    by_rule = find_reader(task, "stated_answer")
    assert (by_rule.changes, by_rule.gains, by_rule.lost) == (2, 2, ())
    assert by_rule.gained == ("000002", "000003")
    assert (task.flips, task.flipped) == (2, ("000002", "000003"))


def test_chance_kappa_and_recalls() -> None:
    """Chance is the mean of 1/K, kappa and recalls are of letters true and predicted."""
    task = audit_only(score("AABB", ["A", "A", "B", "C"]))
    assert (task.chance, task.choice_counts) == (0.25, {4: 4})
    assert task.corrected == pytest.approx((0.75 - 0.25) / 0.75)
    assert task.recalls == {"A": 1.0, "B": 0.5}
    assert task.spread == pytest.approx(25.0)
    assert task.kappa == pytest.approx((0.75 - 6 / 16) / (1 - 6 / 16))


def test_reasons_count_answers_that_are_stated_anyway() -> None:
    """INVALID completions by reason, with how many state an answer and how many the right one."""
    task = audit_only(score("BCDA", ["Answer: B", "Answer: B", "no idea", "A"]))
    first, second = [astuple(reason)[:5] for reason in task.reasons]
    assert first == ("PART_OF_A_WORD", 2, 2, 1, "000001")
    assert second == ("NOT_A_CHOICE", 1, 0, 0, "000003")


def test_rows_that_do_not_count_are_left_out() -> None:
    """Rows that an action excludes from the metrics are not part of the audit."""
    where = {"expression": "{{ sample.answer }}", "op": "equals", "value": "D"}
    action = {"key": "late", "action": "exclude_from_metrics", "filter": where}
    rows = [{"answer": letter} for letter in "ADAD"]
    result = audit_only(ak.score(make_task(LETTERED, actions=[action]), rows, [*"ADAD"]))
    assert (result.n, result.left_out) == (2, {"excluded:late": 2})


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        ({"BLOCK": 1}, None),
        ({"BLOCK": 64}, None),
        ({"BLOCK": 30, "WORKER_BYTES": 1}, None),
        ({"fit_rows": lambda *_: 7}, 20),
    ],
)
@pytest.mark.usefixtures("quick_workers")
def test_parts_and_processes_change_nothing(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, object], most: int | None
) -> None:
    """An audit in blocks of any size, and on several processes, says the same.

    So does one of a draw.
    """
    replies = ["A", "B", "Answer: C", "(D)", "A or B", "B.", " C", "nothing", "The answer is D."]
    run = score("ABCDABCDAB" * 7, [*replies, None] * 7)
    whole = ak.audit(run, most=most)
    for name, value in settings.items():
        monkeypatch.setattr(auditing, name, value)
    assert ak.audit(run, most=most) == whole


def test_trials_have_no_interval() -> None:
    """Completions of the same sample are not independent: they are counted, and no interval is
    claimed.
    """
    result = audit_only(score_trials(2, 2))
    assert (result.n, result.samples) == (4, 2)
    assert result.own is not None
    assert result.own.interval is None
    assert result.own.reach == pytest.approx((0.3423802275066531, 1.0))


def test_at_most_so_many_completions_are_read() -> None:
    """They are drawn by nothing but their number, the same again.

    Of a sample all trials, or none.
    """
    run = score("AB" * 50, ["A"] * 100)
    task = audit_only(run, most=30)
    assert (task.n, task.drawn_from) == (30, 100)
    assert task == audit_only(run, most=30)
    assert {reader.n for reader in task.readers} == {30}
    assert (audit_only(run, most=100).drawn_from, audit_only(run).n) == (None, 100)
    trials = audit_only(score_trials(10, 3), most=12)
    assert (trials.n, trials.samples, trials.drawn_from) == (12, 4, 30)


def test_a_scorer_that_reads_no_choices_leaves_the_completions_to_look_at() -> None:
    """Without choices there are no readers.

    What is odd about the completions is found all the same.
    """
    scorer = {"type": "string_equals", "ground_truth": "{{ sample.answer }}"}
    task = audit_only(ak.score(make_task(scorer), [{"answer": "x"}] * 30, ["same"] * 30))
    assert (task.readers, task.own, task.chance) == ((), None, None)
    assert kinds(task) == ["COMPLETIONS_ALIKE"]


STATED = "Therefore the answer is B."
EVEN = "ABCD" * 10
LETTERS_OF_100 = "A" * 25 + "B" * 25 + "C" * 25 + "D" * 25
FAVOURED = {"letter": "A", "predicted": 40, "true": 25}
CUT = {"cut_off": 3, "of": 30, "invalid": 3}


DUE = [f"A. Due to {number}" for number in range(40)]
MOVED = [*"A" * 40, *"B" * 10, *"C" * 25, *"D" * 25]
CUT_OFF = ["<think> so if we look"] * 3 + ["A"] * 27
ALIKE = "All 40 completions are the same: 'A'."
NOT_ABOVE = "[14.2, 40.2] is not above the chance level of 25.0 %: guess"
SPREAD = "The recalls of the letters spread by 26.0 points (RStd)."
BY_TEXT = "100.0 % by the answers that the texts state: the"


@pytest.mark.parametrize(
    ("answers", "texts", "kind", "words", "numbers"),
    [
        ("B" * 40, [STATED] * 20 + ["B"] * 20, "FORMAT", BY_TEXT, {}),
        (EVEN, ["A"] * 40, "COMPLETIONS_ALIKE", ALIKE, {"same": 40, "of": 40}),
        (EVEN, ["A"] * 40, "CHANCE_LEVEL", NOT_ABOVE, {}),
        (EVEN, [*"BCDA"] * 10, "CHANCE_LEVEL", "is below the chance level", {"accuracy": 0.0}),
        (EVEN, DUE, "FAVOURED_LETTER", "", {"predicted": 40, "true": 10}),
        (LETTERS_OF_100, MOVED, "FAVOURED_LETTER", SPREAD, FAVOURED),
        ("A" * 30, CUT_OFF, "CUT_OFF", "a thought that was never", CUT),
    ],
)
def test_findings_have_their_numbers(
    answers: str, texts: list[str | None], kind: str, words: str, numbers: dict[str, object]
) -> None:
    """A finding has its sentence and the numbers behind it."""
    findings = {finding.kind: finding for finding in audit_only(score(answers, texts)).findings}
    assert words in findings[kind].sentence
    assert findings[kind].numbers.items() >= numbers.items()


def ask(folder: Path, prompt: str) -> Run:
    """Return a run with this prompt, whose dataset is `rows.jsonl`."""
    rows = [{"question": f"Question {n}?", "answer": "ABCD"[n % 4]} for n in range(30)]
    dataset = write_rows(folder / "rows.jsonl", rows)
    task = write_task(folder / "task.yaml", LETTERED, solver=describe_solver(prompt))
    return ak.run(task, dataset=dataset, model="builtin/random", out=folder / "run")


PROMPTS = {"{{ sample.question }}": False, "{{ '{{ question }}' }}": True}
PROMPTS |= {"{question}\nAnswer:": True}


@pytest.mark.parametrize(("prompt", "expected"), PROMPTS.items())
def test_placeholders_that_nobody_filled(tmp_path: Path, prompt: str, *, expected: bool) -> None:
    """A placeholder that is in every prompt is found; a filled one is not."""
    assert ("UNFILLED_PLACEHOLDER" in kinds(audit_only(ask(tmp_path, prompt)))) is expected


def test_a_run_whose_dataset_is_gone(tmp_path: Path) -> None:
    """Its completions cannot be read again; E505 says so."""
    run = ask(tmp_path, "{{ sample.question }}")
    (tmp_path / "rows.jsonl").unlink()
    with pytest.raises(RunError, match="cannot be opened again"):
        ak.audit(run)


@pytest.mark.skipif(not SHARED.exists(), reason="the shared material is not there")
def test_known_values_of_real_completions(tmp_path: Path) -> None:
    """On 14,014 completions of a model that writes a bare letter every careful rule reads the
    same.
    """
    run = ak.run(
        write_task(tmp_path / "task.yaml", LETTERED),
        dataset=SHARED / "helm_mmlu.jsonl",
        completion_column="completions.anthropic_claude-3-opus-20240229",
        out=tmp_path / "run",
    )
    task = audit_only(run)
    assert {find_reader(task, name).correct for name in ("stated_answer", "HELM")} == {11_918}
    assert task.chance == 0.25


def test_an_audit_shows_itself() -> None:
    """It has the run's status and all findings; in a notebook nothing comes unescaped from data."""
    result = ak.audit(score("ABCD" * 10, ["<b>A</b>"] * 40))
    assert (result.path, result.status) == (None, "complete")
    assert result.findings[0].kind == "COMPLETIONS_ALIKE"
    assert "Findings" in str(result)
    assert "&lt;b&gt;A" in result._repr_html_()


# ── what summaries say of readings

VERDICTS: dict[str, Any] = {"compared": 10, "both_right": 5, "both_wrong": 1, "only_imported": 3}
VERDICTS |= {"only_ours": 1, "not_compared": {"NOT_JUDGED": 2}}
DRAWN = """
  Imported verdicts and ours
  the same in 60.00 % of 10 completions; right by the imported verdicts 80.00 %, by ours 60.00 %
  not compared: NOT_JUDGED 2
  They say right, we say wrong: 3 completions
  We say right, they say wrong: 1 completion
"""


def test_their_verdicts_and_ours_are_compared() -> None:
    """No share in a run that is not complete, nothing without them."""
    task = score("A", ["A"]).tasks["quiz"]
    assert draw_imported_verdicts(task, 100) == []
    task = replace(task, totals={**task.totals, "imported": VERDICTS})
    assert plain_text(draw_imported_verdicts(task, 100)) == DRAWN
    assert "%" not in plain_text(draw_imported_verdicts(task, 100, with_shares=False))


FIRST, STATES = "by first_character 25.00 %", "by stated_answer 50.00 %"


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({}, f"accuracy {FIRST}, {STATES}"),
        ({"extraction": "stated_answer"}, f"accuracy {STATES}, {FIRST}"),
        ({"extraction": {"pattern": "^([AB])"}}, f"accuracy by pattern 25.00 %, {FIRST}, {STATES}"),
    ],
)
def test_every_summary_has_the_number_by_both_rules(fields: dict[str, Any], line: str) -> None:
    """The run's own rule comes first; if it is neither of the two, both follow."""
    run = score("AAAA", ["A", "The answer is A.", "B", "Who knows?"], **fields)
    assert plain_text(draw_both_rules(run.tasks["quiz"], 100)) == f"  {line}\n"
    assert f"\n  {line}\n" in str(run)


def test_a_finding_about_drawn_samples_says_so() -> None:
    """All rules are compared on the same samples.

    Without a choice that is read there is no line.
    """
    task = score("A" * 1_001, ["A"] * 1_001).tasks["quiz"]
    pair = "accuracy by first_character 100.00 %, by stated_answer 100.00 %"
    drawn = f"on 1,000 samples drawn at random, {pair}"
    assert plain_text(draw_both_rules(task, 100)) == f"  {drawn}\n"
    assert draw_both_rules(replace(task, totals={**task.totals, "readings": {}}), 100) == []
