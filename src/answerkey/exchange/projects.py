"""An imported log as a project: a task that fits its tables, and a run file that puts them together."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Literal

from answerkey.exchange.drafts import Seen
from answerkey.exchange.labels import LABELS
from answerkey.exchange.logs import Told
from answerkey.exchange.settling import COMPLETIONS, DATASET, Settled

TASK, RUN = "task.yaml", "run.yaml"
#: Where a project keeps the schemas of its files.
SCHEMAS = ".schemas"
DATASET_KEY = "imported"
RULE = "stated_answer"
_LONGEST_KEY = 80
#: Fewer choices than these are not taken for granted where a log does not list any.
_FEWEST = 4


def name_key(text: str) -> str:
    """Return a text as a key: letters, digits, `_` and `-`."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-")[:_LONGEST_KEY] or "imported"


def guess_choices(seen: Seen) -> list[str] | None:
    """Return the choices of a log that lists none, if its truths are letters: from A to the last, or D."""
    if seen.with_choices or not seen.truths:
        return None
    letters = [LABELS.index(one) for one in seen.truths if one in LABELS[:26]]
    if len(letters) != len(seen.truths):
        return None
    return list(LABELS[: max(_FEWEST, max(letters) + 1)])


def write_task(folder: Path, told: Told, seen: Seen, settled: Settled, *, source: str) -> str:
    """Write the task file and return the task's key."""
    name = told.task or "imported"
    key = name_key(name)
    lines = [
        f"# What the replies of {source} are scored with. Change it as you like; the replies stay.",
        f"key: {key}",
        f"display_name: {_quote(name)}",
        f"description: {_quote(f'Imported from {source}.')}",
        "tasks: [chat_completion]",
        "",
        "definition:",
        "  type: benchmark_task",
        "  dataset:",
        f"    key: {DATASET_KEY}",
    ]
    if settled.num_trials > 1:
        lines += ["  trials:", f"    num_trials: {settled.num_trials}"]
    lines += ["  scorers:", *_list_scorers(seen)]
    _write(folder, "task", lines)
    return key


def _list_scorers(seen: Seen) -> list[str]:
    choices = guess_choices(seen)
    if not seen.with_choices and choices is None:
        return [
            "    # The log lists no choices: a reply is right when it equals the truth, letter by letter.",
            "    - type: string_equals",
            '      ground_truth: "{{ sample.answer }}"',
        ]
    stated = json.dumps(choices, ensure_ascii=False) if choices else '"{{ sample.choices }}"'
    common = ['      ground_truth_choice: "{{ sample.answer }}"', f"      choices: {stated}"]
    lines = ["    - type: string_equals_mcqa", *common]
    if choices:
        lines.insert(0, "    # The log lists no choices: these are told from its truths.")
    if seen.with_options == seen.asked:
        lines.append('      options: "{{ sample.options }}"')
    lines += [
        "      # How a reply is read. `first_character` is the strictest rule, `stated_answer` finds an",
        "      # answer wherever it stands; `answerkey audit` shows what each would say.",
        f"      extraction: {RULE}",
    ]
    if seen.with_ranking == seen.said:
        lines += [
            "    # The log has the log-probability of each choice: how sure the model was, and if rightly.",
            "    - type: choice_probabilities",
            *common,
            f"      extraction: {RULE}",
        ]
    return lines


def write_run(folder: Path, key: str, told: Told, *, source: str) -> None:
    """Write the run file, by which `answerkey run DIR` scores the imported completions."""
    title = ", ".join(part for part in (told.task, told.model) if part) or key
    lines = [
        f"# {source}: what was asked, what was said, and the task that scores it. No model is asked.",
        *_list_models(told),
        "datasets:",
        f"  - key: {DATASET_KEY}",
        f"    display_name: {_quote(told.task or 'Imported questions')}",
        "    source:",
        "      type: local",
        f"      file_path: {DATASET}",
        "",
        "tasks:",
        f"  - $ref: {TASK}",
        "",
        "evaluation:",
        f"  key: {key}",
        f"  display_name: {_quote(title)}",
        f"  description: {_quote(f'Imported from {source}.')}",
        "  task_specifications:",
        f"    - task_key: {key}",
        f"      completions: {COMPLETIONS}",
    ]
    lines += [f"      model_key: {name_key(told.model)}"] if told.model else []
    _write(folder, "run", lines)


def _list_models(told: Told) -> list[str]:
    if not told.model:
        return []
    return [
        "models:",
        f"  - key: {name_key(told.model)}",
        f"    display_name: {_quote(told.model)}",
        "    config:",
        "      connection_type: placeholder",
        "",
    ]


def make_plain(text: str) -> str:
    """Return a name on one line, without what a task file would take for a config or environment value."""
    words = "".join(one if one.isprintable() else " " for one in text).replace("<<", "< <").split()
    plain = " ".join(words)
    return f"`{plain}`" if plain.startswith("$") else plain


def _quote(text: str) -> str:
    """Return a text as YAML reads it back: JSON is YAML, but for a few line breaks."""
    return json.dumps(make_plain(text), ensure_ascii=False)


def _write(folder: Path, kind: Literal["task", "run"], lines: list[str]) -> None:
    """Write a file with the schema by which editors know its fields."""
    lines = [f"# yaml-language-server: $schema={SCHEMAS}/{kind}.json", *lines]
    (folder / f"{kind}.yaml").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (folder / SCHEMAS).mkdir(exist_ok=True)
    (folder / SCHEMAS / f"{kind}.json").write_text(_write_schema(kind), encoding="utf-8")


@cache
def _write_schema(kind: Literal["task", "run"]) -> str:
    from answerkey.spec import schema

    return json.dumps(schema(kind), indent=1) + "\n"
