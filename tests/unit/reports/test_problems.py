from __future__ import annotations

from answerkey.errors import DataError, Place, Problems, SpecError
from answerkey.text import describe_notices, describe_problem, draw_notice, draw_problems, plain_text
from answerkey.types import Notice

TRUTH = DataError(
    "E204",
    "sample `mmlu-0017`: ground truth 'E' is not among the choices ['A', 'B', 'C', 'D']",
    where=Place("data/mmlu.jsonl", 18, field="answer"),
    hint="fix the row, or run with `--allow-failed 1`",
)


def test_an_error_says_what_where_and_what_to_do() -> None:
    """Code and message, then the place, then the help, each on its line."""
    assert plain_text(draw_problems([TRUTH])) == (
        "error[E204]: sample `mmlu-0017`: ground truth 'E' is not among the choices ['A', 'B', 'C', 'D']\n"
        "  --> data/mmlu.jsonl:18, column `answer`\n"
        "  = help: fix the row, or run with `--allow-failed 1`\n"
    )


def test_errors_are_separated_and_counted() -> None:
    """Several errors have a blank line between them; after fifty only their number is told."""
    text = plain_text(draw_problems([SpecError("E107", "unknown key `a`")] * 52))
    assert text.startswith("error[E107]: unknown key `a`\n\nerror[E107]")
    assert text.endswith("and 2 more errors; `--json` has them all\n")


def test_hidden_characters_in_errors_are_written_out() -> None:
    """A column name from the data cannot colour the terminal."""
    error = DataError("E206", "column `\x1b[31mx`", where=Place("d.csv", field="\x1b[0m"))
    assert "\x1b" not in plain_text(draw_problems([error]))


def test_a_notice_is_a_warning() -> None:
    """A notice has the shape of an error, with the word warning."""
    notice = Notice("`choices_field` is an old name", Place("task.yaml", 3, 5), "write `choices`")
    assert plain_text(draw_notice(notice)) == (
        "warning: `choices_field` is an old name\n  --> task.yaml:3:5\n  = help: write `choices`\n"
    )
    assert describe_notices([notice])[0]["line"] == 3


def test_json_has_error_or_errors() -> None:
    """One error is an object under `error`, several a list under `errors`."""
    one = describe_problem(TRUTH)
    several = describe_problem(Problems([TRUTH, TRUTH]))
    assert one["error"] == {
        "code": "E204",
        "message": TRUTH.message,
        "file": "data/mmlu.jsonl",
        "line": 18,
        "column": None,
        "sample": None,
        "field": "answer",
        "hint": "fix the row, or run with `--allow-failed 1`",
    }
    assert several == {"errors": [one["error"], one["error"]]}
