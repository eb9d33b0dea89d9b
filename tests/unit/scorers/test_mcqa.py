from __future__ import annotations

import polars as pl
import pytest
from tests.samples import read_cases, record, samples_from_frame, score_table

from answerkey.errors import Place, SpecError
from answerkey.scorers import RowProblem, StringEqualsMcqa, judge
from answerkey.scorers.base import FaultReason, RowFault
from answerkey.scorers.question import (
    Labels,
    build_question,
    check_characters,
    parse_choices,
    read_options,
)
from answerkey.types import (
    Completion,
    CompletionStatus,
    Notice,
    SampleFacts,
    Samples,
    Score,
    ScoreStatus,
)

CASES = read_cases(__file__)

LETTERS = ["A", "B", "C", "D"]
SCORER = StringEqualsMcqa("{{ sample.answer }}", "{{ sample.choices }}")


def build_samples(*answers: object, choices: object = LETTERS) -> Samples:
    """Return samples with these answers, as rows of a file that begins with a heading."""
    frame = pl.DataFrame({"answer": answers, "choices": [choices] * len(answers)}, strict=False)
    ids = pl.Series([f"s{position}" for position in range(len(answers))])
    return samples_from_frame(frame, ids, "data/mmlu.csv", pl.Series(range(2, len(answers) + 2)))


def score(
    scorer: StringEqualsMcqa, samples: Samples, *completions: Completion | str | None
) -> list[Score]:
    """Return the scorer's verdicts on these completions."""
    return list(score_table(scorer, samples, record(samples, completions)).rows())


def find_errors(scorer: StringEqualsMcqa, samples: Samples) -> list[str]:
    """Return the errors of the rows as they are shown."""
    return [str(problem.error) for problem in scorer.check_rows(samples)[0]]


def find_field_errors(scorer: StringEqualsMcqa) -> list[tuple[str, str, str]]:
    """Return field, code and message of what is wrong with the fields."""
    return [(field, error.code, error.message) for field, error in scorer.compiled[1]]


def test_judge_states_everything_about_a_verdict() -> None:
    """A verdict has `is_correct` and the six metadata fields; without a score all are null.

    What is the dataset's fault is FAILED, not a wrong answer; choices are looked at first.
    """
    fields = ("VALID", None, "B", "B", LETTERS, "first_character")
    metadata = dict(zip(StringEqualsMcqa.metadata_types, fields, strict=True))
    assert judge(" B. Lyon", LETTERS, "B") == Score(
        ScoreStatus.SCORED, values={"is_correct": 1.0}, metadata=metadata
    )
    nulls = dict.fromkeys(StringEqualsMcqa.metadata_types)
    failed = Score(ScoreStatus.FAILED, "BAD_TRUTH", {"is_correct": None}, nulls)
    assert judge("A", LETTERS, "E") == failed
    assert judge("A", ["yes", "no"], "yes").reason == "BAD_CHOICES"
    with pytest.raises(SpecError):
        judge("A", LETTERS, "A", extraction="last_character")


def test_table_has_one_row_per_sample_with_fixed_types() -> None:
    """The schema of the scores does not depend on what was scored, not even on whether there is a
    row.
    """
    names = StringEqualsMcqa.metadata_types
    metadata = {**dict.fromkeys(names, pl.String()), "choices": pl.List(pl.String)}
    texts = dict.fromkeys(["status", "reason", "excluded_by"], pl.String())
    structs = {"values": pl.Struct({"is_correct": pl.Float64}), "metadata": pl.Struct(metadata)}
    for samples in (build_samples("A", "E"), build_samples("E"), build_samples("A").slice(0, 0)):
        scores = score_table(SCORER, samples, record(samples, ["A"] * len(samples)))
        assert dict(scores.frame.schema) == {**texts, **structs}
        assert len(scores) == len(samples)


def test_bad_rows_are_failed_and_failed_calls_are_errors() -> None:
    """A bad row is FAILED whatever its completion is.

    A failed call has no score; both have no values.
    """
    failed_call = Completion(None, CompletionStatus.ERROR)
    result = score(SCORER, build_samples("A", "E", "A", None), "A", "A", failed_call, failed_call)
    assert [(row.status.value, row.reason, row.values["is_correct"]) for row in result] == [
        ("SCORED", None, 1.0),
        ("FAILED", "BAD_TRUTH", None),
        ("ERROR", "CALL_FAILED", None),
        ("FAILED", "BAD_TRUTH", None),
    ]


def test_truth_outside_the_choices_is_shown_with_its_place() -> None:
    """The error has sample, value, choices, file, line and column, and says what to do.

    Every bad row has its error, in the order of the rows.
    """
    assert find_errors(SCORER, build_samples("A", "E")) == [
        (
            "error[E204]: sample `s1`: ground truth 'E' is not among the choices ['A', "
            "'B', 'C', 'D']\n"
            "  --> data/mmlu.csv:3, column `answer`\n"
            "  = help: fix the row"
        )
    ]
    problems = SCORER.check_rows(build_samples("E", "A", None, "AB"))[0]
    assert [(problem.position, problem.error.code) for problem in problems] == [
        (0, "E204"),
        (2, "E204"),
        (3, "E204"),
    ]
    assert all(problem.error.hint for problem in problems)


def test_unsuitable_choices_are_shown_with_their_place() -> None:
    """A choice of several characters is E205 in the column of the choices, with the page's
    advice.
    """
    problems, _ = SCORER.check_rows(build_samples("A", choices=["A", "no"]))
    (problem,) = problems
    assert problem == RowProblem(0, problem.error, "BAD_CHOICES", "choices")
    assert problem.error.code == "E205"
    assert problem.error.where == Place("data/mmlu.csv", 2, None, "s0", "choices")
    assert "use the scorer `string_equals`" in str(problem.error.hint)


def test_a_missing_column_is_reported_once() -> None:
    """A column that does not exist is one error however many rows there are, without a row."""
    scorer = StringEqualsMcqa("{{ sample.anser }}", "{{ sample.choices }}")
    problems, _ = scorer.check_rows(build_samples("A", "B", "C"))
    assert [(item.error.code, item.reason) for item in problems] == [("E206", "TEMPLATE_FAILED")]
    assert "`anser` is not a column" in problems[0].error.message
    assert "did you mean `answer`?" in str(problems[0].error.hint)
    assert problems[0].error.where == Place(file="data/mmlu.csv")
    assert [item.reason for item in score(scorer, build_samples("A", "B"), "A", "B")] == [
        "TEMPLATE_FAILED"
    ] * 2


@pytest.mark.parametrize(
    ("scorer", "answers", "problems", "reasons"),
    [
        (
            StringEqualsMcqa("{{ sample.choices[sample.answer] }}", "{{ sample.choices }}"),
            *((0, 9), [(1, "E207")], [None, "TEMPLATE_FAILED"]),
        ),
        (
            StringEqualsMcqa("A", "['A', 'B']", options="{{ 1 // sample.answer }}"),
            *((1, 0, 2), [(1, "E207")], [None, "TEMPLATE_FAILED", None]),
        ),
        (
            StringEqualsMcqa(
                "{{ sample.answer }}", "['A', 'B', 'C', 'D']", options="{{ sample.nothing }}"
            ),
            *(("A", "X"), [(0, "E206"), (1, "E204")], ["TEMPLATE_FAILED", "BAD_TRUTH"]),
        ),
    ],
)
def test_template_that_fails_on_a_row_is_told_with_the_row(
    scorer: StringEqualsMcqa,
    answers: tuple[object, ...],
    problems: object,
    reasons: list[str | None],
) -> None:
    """Rows on which a template fails are reported and FAILED.

    A missing column once, others beside it.
    """
    samples = build_samples(*answers)
    assert [(row.position, row.error.code) for row in scorer.check_rows(samples)[0]] == problems
    assert [
        score_of_row.reason for score_of_row in score(scorer, samples, *["A"] * len(answers))
    ] == reasons


def test_trimmed_white_space_is_told_once_with_the_column() -> None:
    """White space around truths and choices is ignored, with one warning for each column."""
    samples = build_samples("A", " A", "B ", choices=["A", "B "])
    problems, notices = SCORER.check_rows(samples)
    assert problems == []
    assert notices == [
        Notice(
            f"white space around the values of `{column}` is ignored",
            Place("data/mmlu.csv", line, None, sample, column),
            "trim them in the data",
        )
        for column, line, sample in (("answer", 3, "s1"), ("choices", 2, "s0"))
    ]
    assert [row.values["is_correct"] for row in score(SCORER, samples, *"AAB")] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("truth", "count"),
    [("{{ sample.answer | upper }}", 1), ("{% if true %} {{ sample.answer }} {% endif %}", 0)],
)
def test_only_white_space_of_the_data_is_told(truth: str, count: int) -> None:
    """White space that the template itself writes is no finding; what an expression hands on is."""
    scorer = StringEqualsMcqa(truth, LETTERS)  # type: ignore[arg-type]  # a list of texts is a list of texts or integers
    assert len(scorer.check_rows(build_samples(" a" if count else "A"))[1]) == count


def test_fields_that_are_missing_are_named_in_both_spellings() -> None:
    """A scorer with neither the field nor its deprecated form says which two there are."""
    assert find_field_errors(StringEqualsMcqa()) == [
        (name, "E108", f"`{name}` is missing (and so is its deprecated form `{name}_field`)")
        for name in ("ground_truth_choice", "choices")
    ]


@pytest.mark.parametrize(("truth", "choices", "field", "message"), CASES["constants"])
def test_unsuitable_constants_are_the_tasks_fault(
    truth: str, choices: list[str | int] | str, field: str, message: str
) -> None:
    """A constant that fits no row is one error of the task, and is not repeated for each row."""
    scorer = StringEqualsMcqa(truth, choices)
    ((name, code, text),) = find_field_errors(scorer)
    assert (name, code) == (field, "E108")
    assert text.startswith(f"`{field}`: ")
    assert message in text
    assert find_errors(scorer, build_samples("A", "B")) == []


def test_every_mistake_in_the_fields_is_found_at_once() -> None:
    """A broken template, a missing field and an unknown rule are reported together.

    Rows are not tried.
    """
    scorer = StringEqualsMcqa("{{ sample.answer", extraction="first_char")
    assert [(field, code) for field, code, _ in find_field_errors(scorer)] == [
        ("extraction", "E108"),
        ("choices", "E108"),
        ("ground_truth_choice", "E112"),
    ]
    assert scorer.check_rows(build_samples("A")) == ([], [])


def test_known_holds_choices_truths_and_options() -> None:
    """What built-in models may know: a bad row keeps what can be read of it."""
    texts = [["Paris", "Lyon"], ["x", "y"]]
    frame = pl.DataFrame({"answer": ["A", "E"], "choices": [["A", "B"]] * 2, "options": texts})
    assert SCORER.sample_facts(build_samples("A", "B")).options == [None, None]
    facts = SampleFacts(
        choices=[("A", "B")] * 2, truths=["A", "E"], options=[("Paris", "Lyon"), ("x", "y")]
    )
    assert SCORER.sample_facts(samples_from_frame(frame, pl.Series(["1", "2"]))) == facts


@pytest.mark.parametrize(("options", "expected"), CASES["options"])
def test_options_come_from_the_field_or_from_a_column_of_lists(
    options: str | list[str] | None, expected: list[list[str] | None]
) -> None:
    """The field `options` is a template.

    Without it a column `options` counts only if it holds lists.
    """
    scorer = StringEqualsMcqa("{{ sample.answer }}", "['A', 'B']", options=options)
    frame = pl.DataFrame(
        {"answer": ["A"], "a": ["Paris"], "b": ["Lyon"], "options": ["['no', 'list']"]}
    )
    facts = scorer.sample_facts(samples_from_frame(frame, pl.Series(["1"])))
    assert facts is not None
    assert [texts and list(texts) for texts in facts.options] == expected


def test_only_the_stated_answer_reads_choices_that_are_numbers() -> None:
    """The first character of 12 would be 1; other long choices are refused by every rule."""
    numbers = [str(number) for number in range(1, 13)]
    assert judge("The answer is 12.", numbers, "12", "stated_answer").values == {"is_correct": 1.0}
    assert judge("The answer is 1.", numbers, "12", "stated_answer").values == {"is_correct": 0.0}
    assert judge("12", numbers, "12").reason == "BAD_CHOICES"
    assert judge("12", ["10", "11", "12"], "12", "stated_answer").reason == "BAD_CHOICES"
    assert judge("A", ["A", "B"], "12", "stated_answer").reason == "BAD_TRUTH"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        *CASES["choices"],
        (["x" * 500], "has more than one character"),
        ("[" * 5000, "not a list"),
        ("[" + "1," * 200_000 + "]", "not a list"),
        ([*range(1001)], "there are 1,001 choices, and at most 1,000 are read"),
    ],
)
def test_unsuitable_choices_are_refused(value: object, message: str) -> None:
    """What is no list of distinct single characters is refused with the value at fault, without a
    warning.
    """
    with pytest.raises(RowFault) as caught:
        parse_choices(value, check_characters)
    assert caught.value.reason == "BAD_CHOICES"
    assert message in caught.value.message
    assert len(caught.value.message) < 300
    longer = "use the scorer `string_equals`" in str(caught.value.hint)
    assert longer is ("has more than one character" in message)


def test_labels_of_a_question_are_texts_of_any_length() -> None:
    """It is the scorer that asks for single characters; a question takes what its check takes."""

    def accept(_labels: Labels, _reason: FaultReason) -> None:
        """Take every label."""

    question = build_question(["yes", "no "], "no", accept)
    assert question.labels == ("yes", "no")
    assert question.truths == frozenset({"no"})
    assert question.faults == ()
    assert question.trimmed == frozenset({"choices"})
    refused = build_question(["yes", "no "], "no", check_characters).faults
    assert [fault.reason for fault in refused] == ["BAD_CHOICES", "BAD_TRUTH"]


def test_options_are_lists_of_texts_or_nothing() -> None:
    """Option texts come from a list or the text of a list; anything else is no list of options."""
    assert read_options(["Paris", 7, None]) == ("Paris", "7", "")
    assert read_options('["Paris", "Lyon"]') == ("Paris", "Lyon")
    assert read_options("Paris") is None
    assert read_options(None) is None
