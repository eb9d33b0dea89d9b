from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]


def words(project: Path, *more: str) -> tuple[str, ...]:
    """Return the arguments that name the small project."""
    return (str(project / "task.yaml"), "--dataset", str(project / "rows.jsonl"), *more)


def test_a_good_project_is_said_to_be_good(call: Call, project: Path) -> None:
    """Exit code 0 and one line."""
    checked = call("check", *words(project))
    assert (checked.code, checked.out) == (0, "good: 0 errors, 0 warnings; 1 task, 4 rows checked\n")


def test_every_mistake_is_found_at_once(call: Call, project: Path) -> None:
    """Exit code 2; each error has its place, and the last line counts them."""
    task = (project / "task.yaml").read_text(encoding="utf-8")
    (project / "task.yaml").write_text(
        task.replace("description", "descripion").replace("key: small", "key: small\nlong_description: x"),
        encoding="utf-8",
    )
    rows = project / "rows.jsonl"
    rows.write_text(
        rows.read_text(encoding="utf-8").replace('"answer": "B"', '"answer": "E"'), encoding="utf-8"
    )
    checked = call("check", *words(project))
    assert checked.code == 2
    assert "error[E107]: unknown key `descripion`" in checked.out
    assert "error[E108]: `description` is missing" in checked.out
    assert "task.yaml:4:1" in checked.out


def test_plan_shows_how_templates_are_evaluated(call: Call, project: Path) -> None:
    """Each with its text and its plan in words."""
    printed = call("check", *words(project, "--plan")).out
    assert (
        "  string_equals_mcqa.ground_truth_choice\n"
        "    template  {{ sample.answer }}\n"
        "    plan      column `answer`\n"
    ) in printed
    assert "    plan      constant\n" in printed


def test_plan_says_why_a_template_goes_row_by_row(call: Call, project: Path) -> None:
    """Filters of the dataset are planned as well."""
    task = (project / "task.yaml").read_text(encoding="utf-8")
    (project / "task.yaml").write_text(
        task.replace("{{ sample.answer }}", "{{ sample.get('answer') }}"), encoding="utf-8"
    )
    (project / "rows.yaml").write_text(
        "key: rows\ndisplay_name: Rows\nsource:\n  type: local\n  file_path: rows.jsonl\n"
        "  filters:\n    - {op: exists, expression: sample.answer | trim}\n",
        encoding="utf-8",
    )
    files = (str(project / "task.yaml"), "--dataset", str(project / "rows.yaml"))
    printed = call("check", *files, "--plan").out
    assert "    plan      row by row: it uses the row as a whole\n" in printed
    assert "  dataset rows.filters.0.expression\n" in printed
    assert "    plan      column expression `answer`\n" in printed
    (plan,) = [
        one["plan"]
        for one in call("check", *files, "--json").json["check"]["tasks"][0]["templates"]
        if one["template"] == "{{ sample.get('answer') }}"
    ]
    assert plan == {
        "kind": "rows",
        "reads": ["sample"],
        "why": "it uses the row as a whole",
        "text": "row by row: it uses the row as a whole",
    }


def test_plan_is_told_in_full_on_a_narrow_terminal(
    call: Call, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The template is cut, its plan is broken into lines."""
    monkeypatch.setenv("COLUMNS", "60")
    task = (project / "task.yaml").read_text(encoding="utf-8")
    source = "{{ sample.answer or (sample.keys() | list | first) or sample.values | first }}"
    (project / "task.yaml").write_text(task.replace("{{ sample.answer }}", source), encoding="utf-8")
    printed = call("check", *words(project, "--plan")).out
    assert (
        "    template  {{ sample.answer or (sample.keys() | list | f…\n"
        "    plan      row by row: it uses the row as a whole\n"
    ) in printed
    source = "{{ sample.answer or sample.values | first }}"
    (project / "task.yaml").write_text(task.replace("{{ sample.answer }}", source), encoding="utf-8")
    assert (
        "    plan      row by row: there is no column `values`, which\n"
        "              leaves the method of the row\n"
    ) in call("check", *words(project, "--plan")).out


def test_json_has_errors_and_plan(call: Call, project: Path) -> None:
    """One object with the verdict, the errors, the notices and the templates."""
    good = call("check", *words(project, "--json"))
    assert good.json["check"]["good"] is True
    assert good.json["check"]["tasks"][0]["rows"] == 4
    (project / "rows.jsonl").write_text('{"answer": "E", "completion": "A"}\n', encoding="utf-8")
    bad = call("check", *words(project, "--json"))
    assert bad.code == 2
    assert [one["code"] for one in bad.json["errors"]] == ["E204"]
