from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import polars as pl
import pytest
from tests.samples import samples_from_frame

from answerkey.errors import DataError, InternalError, Problems, SpecError
from answerkey.models.model import open_model
from answerkey.solvers import require_known
from answerkey.solvers.single_turn import (
    ChatInput,
    Examples,
    GenericInput,
    InputMessage,
    SingleTurnSolver,
)
from answerkey.types import Completion, CompletionStatus, Request, SampleFacts, Samples

QUESTIONS: dict[str, Sequence[object]] = {
    "question": ["Capital of Australia?", "Red planet?"],
    "options": [["Sydney", "Canberra"], ["Mars, red planet", "Venus"]],
    "answer": ["B", "A"],
}
KNOWN = SampleFacts([["A", "B"], ["A", "B"]], ["B", "A"], [None, None])


def make_samples(columns: Mapping[str, Sequence[object]], **fields: object) -> Samples:
    """Return samples s1, s2, … of a file."""
    frame = pl.DataFrame(columns)
    ids = pl.Series("sample_id", [f"s{i + 1}" for i in range(frame.height)], dtype=pl.String)
    lines = pl.Series("line", range(1, frame.height + 1), dtype=pl.Int64)
    return samples_from_frame(frame, ids, "q.jsonl", lines, **fields)  # type: ignore[arg-type]  # fields by name


def make_solver(*contents: str, examples: Examples | None = None) -> SingleTurnSolver:
    """Return a solver whose user messages have these contents."""
    messages = tuple(InputMessage("user", content) for content in contents)
    return SingleTurnSolver(ChatInput(messages), examples=examples)


def make_generic(template: str) -> SingleTurnSolver:
    """Return a solver with a generic input."""
    return SingleTurnSolver(GenericInput(template))


def find_errors(
    solver: SingleTurnSolver, samples: Samples | None = None
) -> list[tuple[int, str, str]]:
    """Return position, code and message of each row in error."""
    problems = solver.check_prompts(samples or make_samples(QUESTIONS), None)[1]
    return [(position, error.code, error.message) for position, error in problems]


class Own:
    """A model that is not ours: it says which sample it was asked for, in which trial."""

    name = "acme/small"
    is_simulated = False

    def __init__(self) -> None:
        self.asked: list[Request] = []

    def complete(self, questions: Sequence[Request]) -> list[Completion]:
        """Answer, and remember what was asked."""
        self.asked.extend(questions)
        return [Completion(f"{question.sample_id} {question.trial}") for question in questions]


def solve(
    samples: Samples,
    model: str | Own,
    content: str = "x",
    known: SampleFacts | None = KNOWN,
    trials: range = range(1),
) -> pl.DataFrame:
    """Return the table of completions for a prompt of one message."""
    opened = open_model(model) if isinstance(model, str) else model
    solver = make_solver(content)
    return solver.solve(samples, model=opened, facts=known, examples=None, trials=trials).frame


def test_messages_are_rendered_for_each_sample() -> None:
    """Each message's content is a template over the sample; roles stay."""
    system = InputMessage("system", "{{ '{' }}")
    user = InputMessage("user", "{{ sample.question }}")
    solver = SingleTurnSolver(ChatInput((system, user)))
    assert solver.build_prompts(make_samples(QUESTIONS), None) == [
        [{"role": "system", "content": "{"}, {"role": "user", "content": question}]
        for question in QUESTIONS["question"]
    ]


def test_no_messages_are_refused() -> None:
    """An input without messages asks nothing."""
    with pytest.raises(SpecError, match="`input_messages` is empty"):
        ChatInput(())


def test_every_template_error_is_reported_with_its_field() -> None:
    """One bad template does not hide another; good ones compile."""
    solver = make_solver("{{ sample.a", "{{ sample.b }}", "{{ nope }}")
    compiled, errors = solver.compile_templates()
    assert list(compiled) == ["input_builder.input_messages.1.content"]
    assert [(name, error.code) for name, error in errors] == [
        ("input_builder.input_messages.0.content", "E112"),
        ("input_builder.input_messages.2.content", "E112"),
    ]


def test_templates_raise_their_errors() -> None:
    """Asking for the templates of a broken solver raises all that is wrong with them."""
    with pytest.raises(Problems):
        make_solver("{{", "{%").build_prompts(make_samples(QUESTIONS), None)


def test_rows_of_broken_templates_are_not_checked() -> None:
    """A template that does not compile is told elsewhere, not once for each row."""
    assert find_errors(make_solver("{{ sample.a")) == []


def test_examples_cannot_be_named_without_any() -> None:
    """A template that loops over examples needs a solver that has some."""
    _, errors = make_solver("{% for e in examples %}{{ e }}{% endfor %}").compile_templates()
    assert [error.code for _, error in errors] == ["E112"]


def test_a_missing_column_is_reported_once() -> None:
    """A column that no row has is one error, with the nearest name."""
    solver = make_solver("{{ sample.qestion }}")
    ((position, error),) = solver.check_prompts(make_samples(QUESTIONS), None)[1]
    assert (position, error.code) == (0, "E206")
    assert error.message == "`qestion` is not a column"
    assert "did you mean `question`?" in str(error.hint)


def test_failing_rows_are_reported_one_by_one() -> None:
    """A template that fails on some rows names each of them."""
    assert find_errors(make_solver("{{ 1 // sample.n }}"), make_samples({"n": [1, 0, 0]})) == [
        (1, "E207", "sample `s2`: division by zero"),
        (2, "E207", "sample `s3`: division by zero"),
    ]


def test_solve_refuses_before_asking() -> None:
    """A row whose prompt cannot be built stops the work before the model is asked.

    No model, no work.
    """
    model = Own()
    with pytest.raises(DataError):
        solve(make_samples({"n": [1, 0]}), model, "{{ 1 // sample.n }}")
    assert model.asked == []
    with pytest.raises(SpecError, match="none is named"):
        make_solver("x").solve(make_samples(QUESTIONS), model=None, facts=None, examples=None)


def test_completions_keep_prompt_and_order() -> None:
    """The completions table has one row per sample, with what was asked."""
    model, samples = "builtin/constant?choice=B", make_samples(QUESTIONS)
    table = solve(samples, model, "{{ sample.question }}", None)
    assert table["sample_id"].to_list() == ["s1", "s2"]
    assert table["completion"].to_list() == ["B", "B"]
    assert table["source"].to_list() == ["builtin", "builtin"]
    assert table["status"].to_list() == [CompletionStatus.OK] * 2
    assert json.loads(table["prompt"][0]) == [{"role": "user", "content": "Capital of Australia?"}]


def test_each_trial_is_a_question_of_its_own() -> None:
    """All trials of a sample are asked, one after the other.

    Completions of a foreign model are live.
    """
    table = solve(make_samples(QUESTIONS), Own(), trials=range(3, 5))
    assert table["completion"].to_list() == ["s1 3", "s1 4", "s2 3", "s2 4"]
    assert table["sample_id"].to_list() == ["s1", "s1", "s2", "s2"]
    assert table["source"].unique().to_list() == ["live"]


def test_option_column_serves_the_baselines() -> None:
    """Option texts come from the column `options` when the scorer has none."""
    samples = make_samples(QUESTIONS)
    assert solve(samples, "builtin/longest")["completion"].to_list() == ["B", "A"]
    assert solve(samples, "builtin/overlap")["completion"].to_list()[1] == "A"


@pytest.mark.parametrize(
    "cells",
    [
        ['["xx", "y"]', "['x', 'yy']"],
        [{"A": "xx", "B": "y"}, {"A": "x", "B": "yy"}],
        [
            [{"key": "A", "text": "xx"}, {"key": "B", "text": "y"}],
            [{"key": "A", "text": "x"}, {"key": "B", "text": "yy"}],
        ],
        [[11, 2], [1, 22]],
    ],
)
def test_option_column_is_read_in_its_usual_shapes(cells: list[object]) -> None:
    """Lists, lists written as text, letters with texts and objects with `text` are option texts."""
    table = solve(make_samples({"options": cells}), "builtin/longest")
    assert table["completion"].to_list() == ["A", "B"]


def test_scorers_options_come_before_the_column() -> None:
    """What the scorer says of the options counts."""
    facts = SampleFacts(KNOWN.choices, KNOWN.truths, [["long", "x"], ["x", "long"]])
    samples = make_samples({"options": [["x", "xx"], ["xx", "x"]]})
    assert solve(samples, "builtin/longest", known=facts)["completion"].to_list() == ["A", "B"]


@pytest.mark.parametrize("cells", [["not a list", "nor this"], [[None], [None]], ["", ""]])
def test_unreadable_options_are_reported(cells: list[object]) -> None:
    """A column `options` that holds no texts is as good as none."""
    with pytest.raises(SpecError, match="reads the option texts, and there are none"):
        require_known(open_model("builtin/longest"), make_samples({"options": cells}), KNOWN)


def test_a_model_that_needs_facts_from_a_scorer_is_refused_without_them() -> None:
    """Without a scorer that knows the choices, a baseline cannot answer."""
    with pytest.raises(SpecError) as caught:
        require_known(open_model("builtin/simulated"), make_samples(QUESTIONS), None)
    needs = "the `choices` and `truth` of each sample, and no scorer of the task provides them"
    assert caught.value.message == f"model `builtin/simulated` needs {needs}"
    require_known(open_model("builtin/constant"), make_samples(QUESTIONS), None)


def test_overlap_reads_the_prompt_without_a_question_column() -> None:
    """Where no column `question` is, the last user message is the question."""
    prompt = "Is it a red planet? A. Mars red planet B. Venus"
    samples = make_samples({"prompt": [prompt], "options": [["Mars red planet", "Venus"]]})
    facts = SampleFacts([["A", "B"]], ["A"], [None])
    table = solve(samples, "builtin/overlap", "{{ sample.prompt }}", facts)
    assert table["completion"].to_list() == ["A"]


def test_generic_template_yields_messages() -> None:
    """A generic template yields a list of messages, or an object with `messages`."""
    message = '{"role": "user", "content": {{ sample.question | tojson }} }'
    expected = [{"role": "user", "content": "Capital of Australia?"}]
    samples = make_samples(QUESTIONS)
    assert make_generic(f"[{message}]").build_prompts(samples, None)[0] == expected
    assert make_generic(f'{{"messages": [{message}]}}').build_prompts(samples, None)[0] == expected


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("hello", "the template does not yield JSON: Expecting value: line 1 column 1 (char 0): "),
        ("3", "the template yields 3, not messages"),
        ("[]", "the template yields [], not messages"),
        ('{"prompt": "x"}', "the template yields {'prompt': 'x'}, not messages"),
        ('{"messages": [], "n": 1}', "the template yields {'messages': [], 'n': 1}, not messages"),
        ('["x"]', "a message must have `role` and `content`, not 'x'"),
        ('[{"role": "user"}]', "a message must have `role` and `content`, not {'role': 'user'}"),
        ('[{"role": "boss", "content": "x"}]', "unknown role 'boss'"),
        ("[" * 100_000, "the template does not yield JSON: "),
    ],
)
def test_a_generic_template_without_messages_is_reported(template: str, message: str) -> None:
    """What the template yields in place of messages is an error of each row."""
    errors = find_errors(make_generic(template))
    assert [(position, code) for position, code, _ in errors] == [(0, "E302"), (1, "E302")]
    assert errors[0][2].startswith(f"sample `s1`: {message}")


def test_generic_template_errors_have_their_field() -> None:
    """The one template of a generic input is named `template`."""
    _, errors = make_generic("{{ x").compile_templates()
    assert [name for name, _ in errors] == ["input_builder.template"]


def test_examples_that_were_not_handed_in_are_our_bug() -> None:
    """The pipeline hands in the examples that a solver names."""
    with pytest.raises(InternalError):
        make_solver("x", examples=Examples("dev", 1)).build_prompts(make_samples(QUESTIONS), None)


def test_message_format_changes_nothing() -> None:
    """`message_format` is accepted whatever it is."""
    builder = ChatInput((InputMessage("user", "x"),))
    plain = SingleTurnSolver(builder).build_prompts(make_samples(QUESTIONS), None)
    assert SingleTurnSolver(builder, "openai").build_prompts(make_samples(QUESTIONS), None) == plain
