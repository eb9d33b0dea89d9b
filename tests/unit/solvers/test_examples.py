from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
import pytest
from tests.samples import samples_from_frame

from answerkey.errors import SpecError
from answerkey.solvers.single_turn import (
    ChatInput,
    Examples,
    InputMessage,
    SingleTurnSolver,
    pick_examples,
)
from answerkey.templates import RowError
from answerkey.types import Samples

SUBJECTS = ["law", "law", "law", "art", "art", "art", "art", "law"]
POOL = {"q": [f"e{i}" for i in range(8)], "a": list("ABCDABCD"), "subject": SUBJECTS}


def make_samples(
    columns: Mapping[str, Sequence[object]], *, file: str | None = None, prefix: str = "s"
) -> Samples:
    """Return samples with numbered ids."""
    frame = pl.DataFrame(columns)
    ids = pl.Series("sample_id", [f"{prefix}{i}" for i in range(frame.height)], dtype=pl.String)
    return samples_from_frame(frame, ids, file)


def make_asked(count: int = 3) -> Samples:
    """Return samples that are not in the pool."""
    texts = {"q": [f"t{i}" for i in range(count)], "a": ["A"] * count}
    return make_samples({**texts, "subject": ["law", "art", "law"][:count]})


def list_shown(setting: Examples, samples: Samples, pool: Samples) -> list[list[object] | str]:
    """Return the questions that each sample is shown, or its error."""
    picked = pick_examples(setting, samples, pool)
    return [
        rows.message if isinstance(rows, RowError) else [row["q"] for row in rows]
        for rows in picked
    ]


def test_same_seed_shows_the_same_examples() -> None:
    """All samples see the same rows in the same order, for ever; another seed shows others."""
    pool = make_samples(POOL, prefix="e")
    assert list_shown(Examples("dev", 3), make_asked(), pool) == [["e5", "e0", "e4"]] * 3
    assert list_shown(Examples("dev", 3, seed=1), make_asked(), pool) == [["e2", "e3", "e7"]] * 3


def test_more_examples_begin_with_the_fewer() -> None:
    """Raising `num_examples` adds to what was shown."""
    pool = make_samples(POOL, prefix="e")
    three, five = (list_shown(Examples("dev", n), make_asked(1), pool)[0] for n in (3, 5))
    assert five[:3] == three


def test_examples_do_not_depend_on_the_other_samples() -> None:
    """A sample sees the same examples alone and in company."""
    pool, tests = make_samples(POOL, prefix="e"), make_asked()
    setting = Examples("dev", 2, by="subject")
    together = pick_examples(setting, tests, pool)
    assert [pick_examples(setting, tests.slice(i, 1), pool)[0] for i in range(3)] == together


def test_examples_do_not_depend_on_the_order_of_the_pool() -> None:
    """The same rows in another order show the same examples."""
    pool = make_samples(POOL, prefix="e")
    turned = pool.take(list(range(len(pool)))[::-1])
    shown, again = (list_shown(Examples("dev", 4), make_asked(), rows) for rows in (pool, turned))
    assert again == shown


def test_by_restricts_to_the_same_value() -> None:
    """With `by`, a sample sees only rows that share its value in that column."""
    pool = make_samples(POOL, prefix="e")
    picked = pick_examples(Examples("dev", 3, by="subject"), make_asked(), pool)
    subjects = [
        {row["subject"] for row in examples}
        for examples in picked
        if not isinstance(examples, RowError)
    ]
    assert subjects == [{"law"}, {"art"}, {"law"}]


def test_sample_is_never_its_own_example_by_id() -> None:
    """Within one file the row with the sample's id is left out."""
    pool = make_samples(POOL, file="all.jsonl")
    for position, shown in enumerate(list_shown(Examples("all", 7), pool, pool)):
        assert len(shown) == 7
        assert f"e{position}" not in shown


def test_same_id_in_another_file_is_another_row() -> None:
    """Generated ids repeat from file to file; they say nothing across files."""
    test = make_samples({"q": ["t"], "a": ["A"], "subject": ["law"]}, file="test.jsonl")
    assert len(list_shown(Examples("dev", 8), test, make_samples(POOL, file="dev.jsonl"))[0]) == 8


def test_sample_is_never_its_own_example_by_content() -> None:
    """A row that says the same is left out, wherever it comes from and whatever its id."""
    test = make_samples({"q": ["e2"], "a": ["C"], "subject": ["law"]}, file="test.jsonl")
    pool = make_samples(POOL, file="dev.jsonl", prefix="e")
    (shown,) = list_shown(Examples("dev", 7), test, pool)
    assert sorted(map(str, shown)) == ["e0", "e1", "e3", "e4", "e5", "e6", "e7"]


def test_content_is_compared_without_ids_and_extra_columns() -> None:
    """A `sample_id` column and columns that only one side has do not hide a twin."""
    test = make_samples({"sample_id": ["x"], "q": ["e2"], "a": ["C"]})
    (shown,) = list_shown(Examples("dev", 7), test, make_samples(POOL, prefix="e"))
    assert "e2" not in shown


def test_different_datasets_are_not_compared_by_their_few_common_columns() -> None:
    """Two datasets of different columns that share one of them do not make every row a twin."""
    test = make_samples({"prompt": ["x"], "subject": ["law"]})
    assert len(list_shown(Examples("dev", 8), test, make_samples(POOL))[0]) == 8


def test_too_few_examples_are_reported() -> None:
    """A sample that cannot have its examples is in error, with the numbers."""
    setting = Examples("dev", 5, by="subject")
    (by_group,) = list_shown(setting, make_asked(1), make_samples(POOL))
    assert by_group == (
        "5 examples are needed, and dataset `dev` has 4 with `subject` = 'law' that "
        "are not the sample itself"
    )
    (overall,) = list_shown(Examples("dev", 9), make_asked(1), make_samples(POOL))
    expected = "9 examples are needed, and dataset `dev` has 8 that are not the sample itself"
    assert overall == expected


def test_null_is_a_group_of_its_own() -> None:
    """A sample without a value sees rows without one."""
    pool = make_samples({"q": ["x", "y"], "subject": [None, "law"]}, prefix="e")
    test = make_samples({"q": ["t"], "subject": pl.Series([None], dtype=pl.String).to_list()})
    assert list_shown(Examples("dev", 1, by="subject"), test, pool) == [["x"]]


def test_zero_examples_are_allowed() -> None:
    """`num_examples: 0` shows nothing; a negative number is refused."""
    assert list_shown(Examples("dev", 0), make_asked(1), make_samples(POOL)) == [[]]
    with pytest.raises(SpecError, match="must not be negative"):
        Examples("dev", -1)


def test_without_examples_their_dataset_is_not_needed() -> None:
    """`num_examples: 0` is like none at all, unless a template asks for the list, which is empty
    then.
    """
    shown = InputMessage("user", "{{ example.q }}", "examples")
    turns = (shown, InputMessage("user", "{{ sample.q }}"))
    solver = SingleTurnSolver(ChatInput(turns), examples=Examples("dev", 0))
    assert solver.examples is None
    expected = [[{"role": "user", "content": "x"}]]
    assert solver.build_prompts(make_samples({"q": ["x"]}), None) == expected
    counted = ChatInput((InputMessage("user", "{{ examples | length }}"),))
    solver = SingleTurnSolver(counted, examples=Examples("dev", 0))
    built = solver.build_prompts(make_samples({"q": ["x"]}), make_samples(POOL))
    assert built == [[{"role": "user", "content": "0"}]]


def test_column_of_by_must_exist_on_both_sides() -> None:
    """A `by` column that one dataset lacks is one error, not one for each row."""
    chat = ChatInput((InputMessage("user", "x"),))
    solver = SingleTurnSolver(chat, examples=Examples("dev", 1, by="subjct"))
    ((position, error),) = solver.check_prompts(make_asked(), make_samples(POOL))[1]
    assert (position, error.code, error.hint) == (0, "E206", "did you mean `subject`?")


def test_messages_loop_over_examples() -> None:
    """`for_each: examples` repeats neighbouring messages together, once for each example."""
    messages = (
        InputMessage("system", "{{ examples | length }} examples"),
        InputMessage("user", "{{ example.q }}?", "examples"),
        InputMessage("assistant", "{{ example.a }}", "examples"),
        InputMessage("user", "{{ sample.q }}?"),
    )
    pool = make_samples({"q": ["x", "y"], "a": ["A", "B"], "subject": ["law", "law"]}, prefix="e")
    solver = SingleTurnSolver(ChatInput(messages), examples=Examples("dev", 2))
    (prompt,) = solver.build_prompts(make_asked(1), pool)
    assert isinstance(prompt, list)
    expected = ["system", "user", "assistant", "user", "assistant", "user"]
    assert [message["role"] for message in prompt] == expected
    contents = [message["content"] for message in prompt]
    assert (contents[0], contents[5]) == ("2 examples", "t0?")
    assert {tuple(contents[1:3]), tuple(contents[3:5])} == {("x?", "A"), ("y?", "B")}


def test_one_message_may_hold_all_examples() -> None:
    """A content may loop over `examples` itself."""
    content = "{% for e in examples %}{{ e.q }}={{ e.a }};{% endfor %}{{ sample.q }}="
    pool = make_samples({"q": ["x"], "a": ["A"], "subject": ["law"]})
    chat = ChatInput((InputMessage("user", content),))
    solver = SingleTurnSolver(chat, examples=Examples("dev", 1))
    assert solver.build_prompts(make_asked(1), pool) == [[{"role": "user", "content": "x=A;t0="}]]


def test_a_column_missing_only_in_the_examples_is_reported_as_theirs() -> None:
    """An error about a column says which of the two datasets lacks it."""
    messages = (InputMessage("user", "{{ example.subject }}", "examples"),)
    solver = SingleTurnSolver(ChatInput(messages), examples=Examples("dev", 1))
    ((_, error),) = solver.check_prompts(make_asked(), make_samples({"q": ["x"], "a": ["A"]}))[1]
    assert (error.code, error.message) == ("E206", "`subject` is not a column of the examples")
