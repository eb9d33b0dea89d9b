"""Deprecated names still load, and say what replaces them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from answerkey.errors import AnswerkeyError
from answerkey.scorers import StringEqualsMcqa
from answerkey.spec import Job, Options, Plan, Task, load_plan, load_task
from answerkey.spec.nodes import ProblemList
from answerkey.types import Notice

HEAD = """\
key: mcqa
display_name: Questions
description: Multiple choice questions.
config_spec:
  - {type: string, key: col, display_name: Column, default_value: answer key}
"""
DEFINITION = """\
definition:
  scorers:
    - type: string_equals_mcqa
"""
NEW = '      ground_truth_choice: "{{ sample.answer }}"\n      choices: "{{ sample.choices }}"\n'


class Loaded(NamedTuple):
    """A task, or all that is wrong with it; and its notices."""

    task: Task | None
    errors: Sequence[AnswerkeyError]
    notices: Sequence[Notice]


def load(folder: Path, text: str) -> Loaded:
    """Load a task file with this text."""
    (folder / "task.yaml").write_text(text, encoding="utf-8")
    problems = ProblemList()
    task = None
    with suppress(AnswerkeyError):
        task = load_task(folder / "task.yaml", problems=problems)
    return Loaded(task, problems.errors, problems.notices)


def mcqa(loaded: Loaded) -> StringEqualsMcqa:
    """Return the scorer of a task that was loaded without errors."""
    assert loaded.errors == []
    assert loaded.task is not None
    scorer = loaded.task.scoring[0].scorer
    assert isinstance(scorer, StringEqualsMcqa)
    return scorer


def heard(loaded: Loaded | Plan) -> list[tuple[str, str | None]]:
    """Return the names that notices are about, and their hints."""
    return [(notice.message.split("`")[1], notice.hint) for notice in loaded.notices]


def test_column_names_of_the_seed_era_become_templates(tmp_path: Path) -> None:
    """`ground_truth_choice_field` and `choices_field` read the column, and warn with the
    replacement.
    """
    text = "      ground_truth_choice_field: right\n      choices_field: it's\n"
    loaded = load(tmp_path, HEAD + DEFINITION + text)
    scorer = mcqa(loaded)
    assert scorer.ground_truth_choice == "{{ sample['right'] }}"
    assert scorer.choices == "{{ sample['it\\'s'] }}"
    assert heard(loaded) == [
        ("ground_truth_choice_field", "write `ground_truth_choice: \"{{ sample['right'] }}\"`"),
        ("choices_field", "write `choices: \"{{ sample['it\\'s'] }}\"`"),
    ]
    assert str(loaded.notices[0].where).endswith("task.yaml:9:7")


def test_the_same_old_name_warns_once(tmp_path: Path) -> None:
    """Two scorers with the same old fields give one notice each."""
    text = "      ground_truth_choice_field: right\n      choices_field: choices\n"
    loaded = load(tmp_path, HEAD + DEFINITION + text + "    - type: string_equals_mcqa\n" + text)
    assert len(loaded.notices) == 2


def test_config_works_in_old_column_names(tmp_path: Path) -> None:
    """`<< config.x >>` is filled in in an old column name."""
    text = "      ground_truth_choice_field: << config.col >>\n      choices: [A, B]\n"
    scorer = mcqa(load(tmp_path, HEAD + DEFINITION + text))
    assert scorer.ground_truth_choice == "{{ sample['answer key'] }}"


def test_the_new_name_wins(tmp_path: Path) -> None:
    """When both are given the new one is used, with a notice that says so."""
    loaded = load(tmp_path, HEAD + DEFINITION + NEW + "      choices_field: other\n")
    assert mcqa(loaded).choices == "{{ sample.choices }}"
    assert [notice.message for notice in loaded.notices] == [
        "`choices_field` of the scorer is deprecated, and `choices` is given too: `choices` is used"
    ]


@pytest.mark.parametrize("value", ["true", "[A, B]", "{a: b}", "1.5"])
def test_an_old_column_name_must_be_text(tmp_path: Path, value: str) -> None:
    """Another value is an error that names the old field; it is never read as the choices."""
    text = f'      ground_truth_choice: "{{{{ sample.answer }}}}"\n      choices_field: {value}\n'
    loaded = load(tmp_path, HEAD + DEFINITION + text)
    assert any("`choices_field` must be text" in error.message for error in loaded.errors)


def test_neither_name_is_an_error_that_names_both(tmp_path: Path) -> None:
    """A scorer needs the field by its new or its old name."""
    (error,) = load(tmp_path, HEAD + DEFINITION + "      choices: [A, B]\n").errors
    assert error.code == "E108"
    assert "`ground_truth_choice`" in error.message
    assert "`ground_truth_choice_field`" in error.message


def test_old_names_change_no_fingerprint(tmp_path: Path) -> None:
    """The old and the new spelling are the same task."""
    old = load(
        tmp_path, HEAD + DEFINITION + "      ground_truth_choice_field: a\n      choices: [A, B]\n"
    )
    text = "      ground_truth_choice: \"{{ sample['a'] }}\"\n      choices: [A, B]\n"
    new = load(tmp_path, HEAD + DEFINITION + text)
    assert old.task is not None
    assert new.task is not None
    assert old.task.fingerprint == new.task.fingerprint


def test_old_fields_of_a_definition(tmp_path: Path) -> None:
    """`declarative_task`, `evaluated_entity_type` and `fast_subset_size` are read and change
    nothing.
    """
    text = HEAD + DEFINITION + NEW
    text += "  type: declarative_task\n  evaluated_entity_type: model\n"
    text += "  dataset: {key: q, fast_subset_size: 50}\n"
    loaded = load(tmp_path, text)
    mcqa(loaded)
    assert heard(loaded) == [
        ("type: declarative_task", "write `type: benchmark_task`"),
        (
            "evaluated_entity_type",
            (
                "leave it out: a task with a `solver` evaluates a model, one without "
                "evaluates the dataset"
            ),
        ),
        ("fast_subset_size", "it is ignored; write `run_config: {num_samples: …}`"),
    ]


RUN = """\
datasets:
  - {key: q, display_name: Q, file_path: q.jsonl}
tasks:
  - $ref: task.yaml
evaluation:
  key: old
  display_name: Old
  description: Seed era
  EXTRA
  task_specifications: [{task_key: mcqa}]
"""


def only(
    folder: Path, extra: str, run_config: str = ""
) -> tuple[Job, list[tuple[str, str | None]]]:
    """Return the only job of a run file from the seed era, and its notices."""
    load(folder, HEAD + DEFINITION + NEW)
    (folder / "run.yaml").write_text(
        run_config + RUN.replace("EXTRA", extra or "tags: []"), encoding="utf-8"
    )
    loaded = load_plan(folder, Options())
    assert loaded.errors == []
    return loaded.jobs[0], heard(loaded)


def test_file_path_at_the_top_of_a_dataset(tmp_path: Path) -> None:
    """A dataset's `file_path` is a local source, relative to its file."""
    job, notices = only(tmp_path, "")
    assert getattr(job.dataset_spec.source, "file_path", None) == str(tmp_path / "q.jsonl")
    assert notices == [("file_path", "write `source: {type: local, file_path: q.jsonl}`")]


@pytest.mark.parametrize(
    ("extra", "run_config", "num_samples", "name"),
    [
        ("mode: debug", "", 10, "mode"),
        ("mode: full", "", None, "mode"),
        ("num_samples: 7", "", 7, "num_samples"),
        ("num_samples: 7", "run_config: {num_samples: 3}\n", 3, "num_samples"),
        ("{mode: debug, num_samples: 7}", "", 7, "mode"),
    ],
)
def test_sizes_of_the_seed_era(
    tmp_path: Path, extra: str, run_config: str, num_samples: int | None, name: str
) -> None:
    """`mode: debug` is ten samples, `full` all.

    `num_samples` of the evaluation yields to `run_config`.
    """
    lines = extra.strip("{}").replace(", ", "\n  ")
    specification, notices = only(tmp_path, lines, run_config)
    assert specification.selection.num_samples == num_samples
    assert name in [heard_name for heard_name, _ in notices]


def test_subsampling_and_cache_policy_of_the_seed_era(tmp_path: Path) -> None:
    """Both still work in the evaluation, and say where they belong."""
    specification, notices = only(tmp_path, "subsampling: random\n  cache_policy: no-cache")
    assert specification.selection.subsampling == "random"
    hints = dict(notices)
    assert hints["subsampling"] == "write `run_config: {subsampling: random}`"
    assert hints["cache_policy"] == "write `run_config: {cache_policy: no-cache}`"
