"""Laws of numbers in the spellings of YAML 1.1."""

from __future__ import annotations

import pytest

from answerkey.spec import Overrides, load_plan, load_task
from answerkey.spec.validation import parse_number, parse_whole

from .conftest import RUN, TASK, Write


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1_000", 1000),
        ("0x1F", 31),
        ("-0x1f", -31),
        ("0o17", 15),
        ("0b101", 5),
        ("+7", 7),
        (" 12 ", 12),
        ("0", 0),
        ("010", None),
        ("08", None),
        ("1.5", None),
        ("1e3", None),
        ("0x", None),
        ("_1", None),
        ("1:30", None),
        ("", None),
        ("9" * 400, None),
    ],
)
def test_a_whole_number_has_several_spellings(text: str, number: int | None) -> None:
    """Underscores, hexadecimal, octal and binary; a leading 0 is none, since it means two things."""
    assert parse_whole(text) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1_000.5", 1000.5),
        ("0x1F", 31.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e3", 1000.0),
        ("01.5", 1.5),
        ("010", None),
        ("nan", None),
        (".inf", None),
        ("1e999", None),
        ("1.2.3", None),
    ],
)
def test_a_number_has_several_spellings(text: str, number: float | None) -> None:
    """Finite ones only."""
    assert parse_number(text) == number


@pytest.mark.parametrize(("text", "number"), [("1_000", 1000), ("0x1F", 31), ('"0o17"', 15)])
def test_a_parameter_reads_them(write: Write, text: str, number: int) -> None:
    """In the file and from the command line alike."""
    spec = f"config_spec:\n  - {{type: int, key: n, display_name: N, min: 0x1, default_value: {text}}}\n"
    write(task_yaml=TASK.replace("config_spec:\n", spec))
    loaded = load_task("task.yaml")
    assert loaded.errors == []
    assert loaded.value is not None
    assert loaded.value.config["n"] == number
    loaded = load_task("task.yaml", config={"n": text.strip('"')})
    assert loaded.value is not None
    assert loaded.value.config["n"] == number


def test_a_numeric_field_reads_them(project: Write) -> None:
    """As a value of `run_config`, of a specification, of a model."""
    project(run_yaml=RUN + "      num_samples: 1_0\nrun_config: {seed: 0x1F}\n")
    loaded = load_plan("run.yaml", Overrides())
    assert loaded.errors == []
    assert loaded.value is not None
    selection = loaded.value.specifications[0].selection
    assert (selection.num_samples, selection.seed) == (10, 31)


def test_a_leading_zero_is_refused_with_both_meanings(project: Write) -> None:
    """YAML 1.1 reads 8, YAML 1.2 reads 10."""
    spec = "config_spec:\n  - {type: int, key: n, display_name: N, default_value: 010}\n"
    project(
        run_yaml=RUN + "run_config: {seed: 010}\n",
        task_yaml=TASK.replace("config_spec:\n", spec),
    )
    hint = "a leading 0 may mean octal or nothing: leave it out, or write `0o10` for 8"
    assert [(error.message, error.hint) for error in load_plan("run.yaml").errors] == [
        ("`seed` must be a whole number, not '010'", hint),
        ("default of config parameter `n` must be a whole number, not '010'", hint),
    ]


def test_they_stay_text_where_text_stands(write: Write) -> None:
    """A choice and a truth are what is written."""
    text = TASK.replace('"{{ sample.choices }}"', "[0x1F, 1_000]")
    write(task_yaml=text)
    task = load_task("task.yaml").value
    assert task is not None
    assert task.main_step.scorer.choices == ["0x1F", "1_000"]  # type: ignore[attr-defined]  # an mcqa scorer
