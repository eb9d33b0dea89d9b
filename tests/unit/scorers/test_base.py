"""What a scorer inherits, what its templates see, and action rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import polars as pl
import pytest
from tests.processes import run_python
from tests.samples import record, samples_from_frame, score_table

from answerkey import scorers
from answerkey.errors import DataError, SpecError
from answerkey.reader import EXTRACTORS
from answerkey.scorers import (
    SCORERS,
    Action,
    Scorer,
    StringEqualsMcqa,
    apply_actions,
    build_table,
    join_scores,
    list_template_fields,
    reads_by_templates,
    score_rows,
)
from answerkey.scorers.base import build_contexts
from answerkey.scorers.model_judge import ModelAsAJudge
from answerkey.scorers.rereading import (
    MOST_AUDITED,
    choose_audited,
    count_readings,
    find_audited_rows,
    list_passages,
    reread,
)
from answerkey.scorers.string_equals import StringEquals
from answerkey.templates import RowFilter
from answerkey.types import (
    RULE_NAMES,
    Completion,
    Completions,
    CompletionStatus,
    Request,
    Row,
    Sample,
    Samples,
    Score,
    Scores,
    ScoreStatus,
)


@dataclass(frozen=True)
class Bare(Scorer):
    """A scorer that adds two fields."""

    wanted: str
    other: str | None = None

    template_fields = ("wanted", "other")
    value_types: ClassVar = {"length": pl.Float64()}
    metadata_types: ClassVar = {"id": pl.String()}

    def judge(self, question: Sample, completion: Completion) -> Score:
        """Return the length of the text, and the id of the sample."""
        values = {"length": len(completion.text or "")}
        return Score(ScoreStatus.SCORED, values=values, metadata={"id": question.id})


def test_which_scorers_read_samples_only_through_templates() -> None:
    """Others may look at any column, and so their first samples are scored before the rest."""
    by_templates = [name for name, scorer in SCORERS.items() if vars(scorer).get("by_templates")]
    assert by_templates == ["string_equals_mcqa", "string_equals", "choice_probabilities"]


ONE_ROW = samples_from_frame(pl.DataFrame({"x": ["1"]}), pl.Series(["a"]))


def test_a_scorer_of_one_s_own_needs_nothing_but_judge() -> None:
    """It judges one completion of one sample; one whose call failed is an error before that.

    It takes every row, knows no choices and runs no code of the user's.
    """
    scorer = Bare("{{ sample.x }}")
    samples = ONE_ROW.repeat(2)
    failed = Completion(None, CompletionStatus.ERROR)
    completions = Completions.build(samples.ids, [Completion("four"), failed], source="live")
    assert list(score_table(scorer, samples, completions).rows()) == [
        Score(ScoreStatus.SCORED, None, {"length": 4.0}, {"id": "a"}),
        Score(ScoreStatus.ERROR, "CALL_FAILED", {"length": None}, {"id": None}),
    ]
    assert (list(scorer.value_types), list(scorer.metadata_types)) == (["length"], ["id"])
    assert scorer.text_names == ("id",)
    assert not reads_by_templates(scorer)
    assert scorer.needs_completion
    assert scorer.check_fields() == []
    assert scorer.check_rows(ONE_ROW) == ([], [])
    assert scorer.sample_facts(ONE_ROW) is None
    assert scorer.snippets() == ()


def test_its_templates_are_those_of_the_fields_that_are_given() -> None:
    """A field left out has none; one that does not compile is its own error."""
    templates = Bare("{{ sample.x }}").templates()
    assert {name: text.values(ONE_ROW) for name, text in templates.items()} == {"wanted": ["1"]}
    with pytest.raises(SpecError):
        Bare("{{ sample.x").templates()


def test_its_templates_are_known_where_files_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of a field that holds a template in any scorer is read as one."""
    monkeypatch.setattr(scorers, "SCORERS", {**scorers.SCORERS, "bare": Bare})
    assert scorers.list_template_fields() >= {"wanted", "other", "ground_truth"}


SAMPLES = samples_from_frame(
    pl.DataFrame({"answer": ["A", "B", "A"], "level": [1, 2, None]}),
    pl.Series(["s0", "s1", "s2"]),
    "questions.jsonl",
    pl.Series([1, 2, 3]),
)
ANSWERS = record(SAMPLES, ["A", "Hmm", "B"])


def exclude(*actions: Action) -> list[str | None]:
    """Return the key of the rule that keeps each sample out of the metrics."""
    scorer = StringEqualsMcqa("{{ sample.answer }}", "['A', 'B']")
    scores = {"mcqa": score_table(scorer, SAMPLES, ANSWERS)}
    return apply_actions(actions, SAMPLES, ANSWERS, scores)["mcqa"].frame["excluded_by"].to_list()


def test_filters_see_sample_solver_output_and_scores() -> None:
    """A rule may look at the row, at the reply, and at the values and metadata of every scorer."""
    content = "{{ solver_output.output.choices[0].message.content }}"
    validity = "{{ scores.mcqa.completion_validity }}"
    expected = {"{{ sample.answer }}": "B", content: "Hmm", validity: "INVALID"}
    for expression, value in expected.items():
        assert exclude(Action("x", RowFilter("equals", expression, value))) == [None, "x", None]
    right = RowFilter("is_true", "{{ scores.mcqa.is_correct }}")
    assert exclude(Action("right", right)) == ["right", None, None]


def test_first_matching_rule_is_the_one_that_counts() -> None:
    """A sample that several rules match is excluded by the first of them."""
    first = Action("first", RowFilter("equals", "{{ sample.answer }}", "A"))
    second = Action("second", RowFilter("exists", "{{ sample.level }}"))
    assert exclude(first, second) == ["first", "second", "first"]
    assert exclude() == [None, None, None]


def test_first_row_that_fails_is_told_first() -> None:
    """A filter that fails is an error with rule and row; of several, the first row counts.

    A row that an earlier rule matches needs no other.
    """
    fails_on_null = Action("late", RowFilter("greater_than", "{{ sample.level }}", 5))
    fails_on_text = Action("early", RowFilter("greater_than", "{{ sample.answer }}", 0))
    fails_on_name = Action("early", RowFilter("equals", "{{ sample.anser }}", "A"))
    for failing in (fails_on_text, fails_on_name):
        with pytest.raises(DataError, match="action `early`: ") as caught:
            exclude(fails_on_null, failing)
        assert caught.value.code == "E207"
        assert str(caught.value.where).startswith("questions.jsonl:1")
    everyone = Action("all", RowFilter("exists", "{{ sample.answer }}"))
    assert exclude(everyone, fails_on_null) == ["all", "all", "all"]


def test_sample_is_kept_out_with_all_its_trials() -> None:
    """What a rule finds in one trial of a sample counts for all of them, the first trial first."""
    samples = SAMPLES.repeat(2)
    answers = record(samples, ["A", "Hmm", "B", "B", "Hmm", "no"])
    scorer = StringEqualsMcqa("{{ sample.answer }}", "['A', 'B']")
    scores = {"mcqa": score_table(scorer, samples, answers)}
    content = "{{ solver_output.output.choices[0].message.content }}"
    actions = [Action(text, RowFilter("equals", content, text)) for text in ("no", "Hmm")]
    excluded = apply_actions(actions, samples, answers, scores, num_trials=2)["mcqa"].frame[
        "excluded_by"
    ]
    assert excluded.to_list() == ["Hmm", "Hmm", None, None, "Hmm", "Hmm"]


def test_filters_see_values_and_metadata_by_scorer() -> None:
    """A value hides metadata of its name; values that are stored as JSON are seen decoded."""
    scores = [
        Score(ScoreStatus.SCORED, None, {"score": 0.5, "list": [1]}, {"score": "hidden"}),
        Score(ScoreStatus.SCORED, None, {"score": 1, "list": "text"}),
        Score(ScoreStatus.ERROR, "CALL_FAILED"),
    ]
    table = build_table(scores, {"score": pl.Float64(), "list": None}, {"score": pl.String()})
    contexts = build_contexts(SAMPLES, ANSWERS, {"first": table})
    assert [context["scores"] for context in contexts] == [
        {"first": {"score": 0.5, "list": [1]}},
        {"first": {"score": 1.0, "list": "text"}},
        {"first": {"score": None, "list": None}},
    ]


ORDERED = StringEqualsMcqa("{{ sample.answer }}", ["A", "B", "C"])


class CountingModel:
    """Gives every answer four points, and counts what it was asked."""

    name = "counting/judge"
    is_simulated = False

    def __init__(self) -> None:
        self.asked: list[str] = []

    def complete(self, questions: Sequence[Request]) -> list[Completion]:
        """Return one completion for each question."""
        self.asked += [question.sample_id for question in questions]
        return [Completion('{"score": 4}') for _ in questions]


def make_tables(answers: Sequence[str], texts: Sequence[str | None]) -> tuple[Samples, Completions]:
    """Return samples with these truths, and what a model said to them."""
    ids = pl.Series([f"s{number}" for number in range(len(answers))])
    options = [["one", "two", "three", "four"]] * len(answers)
    samples = samples_from_frame(pl.DataFrame({"answer": list(answers), "options": options}), ids)
    return samples, Completions.build_texts(
        ids, pl.Series(list(texts), dtype=pl.String), source="recorded"
    )


def list_statuses(scores: Scores) -> list[tuple[str, str | None]]:
    """Return status and reason of each row."""
    return [(row.status.value, row.reason) for row in scores.rows()]


def test_rows_that_the_dataset_got_wrong_are_failed() -> None:
    """They have a reason and no values; the others are scored as ever.

    A judge costs money: it sees the good rows alone, and all rows come back in their places.
    """
    result = score_rows(ORDERED, *make_tables("AB", "AB"), [1])
    assert list_statuses(result) == [("SCORED", None), ("FAILED", "BAD_ROW")]
    assert [row.values.get("is_correct") for row in result.rows()] == [1.0, None]
    model = CountingModel()
    judge = ModelAsAJudge("j", "{{ input_prompt }}", score_min=0, score_max=4).bind(
        model, key="quality"
    )
    tables = make_tables("ABC", "xyz")
    result = score_rows(judge, *tables, [1])
    assert model.asked == ["s0", "s2"]
    assert list_statuses(result) == [("SCORED", None), ("FAILED", "BAD_ROW"), ("SCORED", None)]
    assert len(score_rows(judge, *tables, [])) == 3
    assert model.asked[2:] == ["s0", "s1", "s2"]


def test_the_stored_form_has_a_struct_for_each_scorer() -> None:
    """Sample and trial come first, then the scorers under their keys."""
    samples, completions = make_tables("A", "A")
    scorers: dict[str, Scorer] = {"mcqa": ORDERED, "same": StringEquals("A")}
    table = join_scores(
        completions,
        {key: score_table(scorer, samples, completions) for key, scorer in scorers.items()},
    )
    assert table.columns == ["sample_id", "trial", "mcqa", "same"]
    assert table.row(0, named=True)["mcqa"]["values"] == {"is_correct": 1.0}


def show(orders: Sequence[Sequence[int]], *, is_prior: bool = False) -> Samples:
    """Return one sample with the truth A, shown in several orders."""
    table = pl.DataFrame(
        {
            "base_sample_id": ["s"] * len(orders),
            "order": pl.Series(orders, dtype=pl.List(pl.UInt16)),
            "not_reordered": pl.Series([None] * len(orders), dtype=pl.String),
        }
    )
    if is_prior:
        table = table.with_columns(estimates_prior=pl.lit(True), is_extra=pl.lit(False))  # noqa: FBT003 - a column
    ids = pl.Series([f"s#{number}" for number in range(len(orders))])
    return samples_from_frame(pl.DataFrame({"answer": ["A"] * len(orders)}), ids, orders=table)


def test_the_truth_moves_with_its_option() -> None:
    """The option A stands at the third place of the second order, where it is called C."""
    samples = show([[0, 1, 2], [1, 2, 0], [0, 1]])
    scores = score_rows(ORDERED, samples, record(samples, "ACB"), [])
    results = [dict(row.metadata) for row in scores.rows()]
    assert [metadata["ground_truth_choice"] for metadata in results] == ["A", "C", "A"]
    assert [metadata["predicted_option"] for metadata in results] == ["A", "A", "B"]
    assert [metadata["ground_truth_option"] for metadata in results] == ["A", "A", "A"]
    orders = [metadata["option_order"] for metadata in results]
    assert orders == [["A", "B", "C"], ["B", "C", "A"], None]
    assert {metadata["base_sample_id"] for metadata in results} == {"s"}


def test_scores_without_choices_say_the_sample_they_are_of() -> None:
    """A scorer that knows no labels has nothing to call back; what estimates a prior is marked."""
    samples = show([[1, 0]], is_prior=True)
    (row,) = score_rows(StringEquals("A"), samples, record(samples, ["A"]), []).rows()
    assert row.metadata["base_sample_id"] == "s"
    assert (row.metadata["option_order"], row.metadata["predicted_option"]) == (None, None)
    assert (row.metadata["estimates_prior"], row.metadata["is_extra"]) == (True, False)


ALL = (*RULE_NAMES, *EXTRACTORS)
LETTERS = ("A", "B", "C", "D")
SCORER = StringEqualsMcqa(ground_truth_choice="{{ sample.answer }}", choices=list(LETTERS))
TEXTS = ["B", "Answer: B", " C", "(D)", None, "A or B"]


def read(
    answers: str = "BBCDAA", rows: Sequence[int] = range(6), **columns: Sequence[object]
) -> dict[str, Any]:
    """Return the readings of these rows of `TEXTS`; columns replace those of the completions and
    scores.
    """
    samples, replies = make_tables(answers, TEXTS)
    replies = Completions.from_frame(
        replies.frame.with_columns(
            pl.Series(*item) for item in columns.items() if item[0] == "imported_score"
        )
    )
    scores = score_table(SCORER, samples, replies)
    kept = [
        pl.Series(*item, dtype=pl.String) for item in columns.items() if item[0] == "excluded_by"
    ]
    return count_readings(
        SCORER, samples, replies, replace(scores, frame=scores.frame.with_columns(kept)), rows
    )


def test_each_reader_reads_each_text() -> None:
    """Readings come back in the order of the texts; where there is no text, nothing is read."""
    passages = [(text, LETTERS, None) for text in ["B", None, "Answer: C", "B"]]
    result = reread(passages, ALL)
    assert result["first_character"].to_list() == ["B", None, None, "B"]
    assert result["first_character_literal"].to_list() == ["B", None, "A", "B"]
    assert result["stated_answer"].to_list() == ["B", None, "C", "B"]
    assert result["deepeval"].to_list() == ["B", None, None, "B"]


def test_only_lenses_see_options_that_the_scorer_does_not_give() -> None:
    """A rule reads what a rescore would read; a lens uses whatever is known."""
    options = ("Sydney", "Canberra", "Perth", "Hobart")
    passages = [("It must be Canberra.", LETTERS, options)]
    assert reread(passages, ALL)["lm-eval"].to_list() == ["B"]
    assert reread(passages, ALL)["stated_answer"].to_list() == [None]
    assert reread(passages, ALL, is_told=True)["stated_answer"].to_list() == ["B"]


def test_passages_of_a_scorer_have_its_choices_and_options() -> None:
    """Choices are those of the scores; without option texts anywhere there are none."""
    samples, completions = make_tables("BBCDAA", TEXTS)
    answers = [Sample(sample.id, Row(answer=sample.fields["answer"])) for sample in samples]
    whole, bare = samples, Samples(answers, ["answer"])
    for rows, options in ((whole, ("one", "two", "three", "four")), (bare, None)):
        passages = list_passages(SCORER, rows, completions, score_table(SCORER, rows, completions))
        assert passages == [(text, LETTERS, options) for text in TEXTS]


def test_counts_are_of_the_rows_asked_for() -> None:
    """Each rule has how many it reads rightly and how many not at all, the run's own among them.

    A row that a rule keeps out of the metrics is passed over; a scorer that reads no choices has no
    readings.
    """
    result = read()
    assert (result["n"], result["samples"], result["own_rule"]) == (6, 6, {"first_character": 6})
    assert result["rules"]["own"] == {"correct": 2, "invalid": 4}
    assert result["rules"]["stated_answer"] == {"correct": 4, "invalid": 2}
    assert read(rows=[0])["rules"]["own"]["correct"] == 1
    kept_out = read(excluded_by=[None, "rule", None, None, None, None])
    assert (kept_out["n"], kept_out["samples"]) == (5, 5)
    samples, completions = make_tables("A", "x")
    scores = score_table(SCORER, samples, completions)
    assert count_readings(StringEquals("x"), samples, completions, scores, [0]) == {}


@pytest.mark.parametrize("count", [0, 1, MOST_AUDITED, MOST_AUDITED + 1, 1_000_000])
def test_spots_depend_on_the_count_alone(count: int) -> None:
    """There are at most 1,000 spots, in order and each once; all rows where there are no more."""
    spots = choose_audited(count)
    assert spots == choose_audited(count)
    assert len(spots) == min(count, MOST_AUDITED)
    assert list(spots) == sorted(set(spots))
    assert all(0 <= spot < count for spot in spots)


def test_the_draw_of_spots_never_changes() -> None:
    """So that an audit of last year can be made again."""
    assert choose_audited(100, 4) == (5, 49, 53, 97)


def test_spots_of_a_stretch_are_its_rows() -> None:
    """However samples are cut, each spot is picked once, with all its trials."""
    spots = (0, 3, 4, 9)
    assert find_audited_rows(spots, range(3, 6), 1) == [0, 1]
    assert find_audited_rows(spots, range(3, 10), 2) == [0, 1, 2, 3, 12, 13]
    assert find_audited_rows(spots, range(5, 9), 3) == []


def test_own_scorers_are_found_by_type() -> None:
    """The types of the docs are the keys of the registry."""
    judges = ["model_as_a_judge_scorer", "model_as_a_judge_classifier", "labeler_via_model"]
    further = ["python", *judges, "choice_probabilities"]
    assert list(SCORERS) == ["string_equals_mcqa", "string_equals", *further]
    for name, scorer in SCORERS.items():
        assert name == scorer.type
        assert set(scorer.template_fields) <= {field.name for field in fields(scorer)}  # type: ignore[arg-type]  # scorers are dataclasses
        assert list_template_fields() >= set(scorer.template_fields)


def test_metrics_and_unicode_tables_are_loaded_only_when_needed() -> None:
    """ASCII completions are judged without other metrics and without the library for grapheme
    clusters.
    """
    unused = {"answerkey.metrics.classification", "answerkey.metrics.python"}
    code = (
        "import sys; import answerkey.metrics; from answerkey.scorers import judge;"
        f"judge('B. x', ['A', 'B'], 'B'); assert not {unused} & sys.modules.keys();"
        "assert 'regex' not in sys.modules; judge('B\u0301', ['A', 'B'], 'B'); assert "
        "'regex' in sys.modules"
    )
    assert run_python("-c", code).returncode == 0
