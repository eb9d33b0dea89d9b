"""Tasks made in Python: from a file or a mapping, or from the parts of a question."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from answerkey.spec import Options, Task
from answerkey.spec import load_task as load_task_file

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_INSTRUCTION = "Answer with the letter of the right option and nothing else.\nAnswer:"
_OPTIONS = "{%% for letter, text in %s | zip(%s) %%}\n{{ letter }}. {{ text }}\n{%%- endfor %%}\n"
_LONE_EXPRESSION = re.compile(r"\s*\{\{\s*(.*?)\s*\}\}\s*", re.DOTALL)


def load_task(source: str | Path | Mapping[str, object], **config: object) -> Task:
    """Return a task from a file or a mapping, with these config values.

    Raise all its errors at once.
    """
    return load_task_file(source, Options(config=config))


def mcqa(
    *,
    truth: str,
    question: str | None = None,
    options: str | Sequence[str] | None = None,
    choices: str | Sequence[str] | None = None,
    prompt: str | None = None,
    extraction: str = "stated_answer",
    key: str = "mcqa",
    **definition: object,
) -> Task:
    """Return a multiple-choice task, as a task file would define it; texts are templates.

    The model is sent the `question`, with the `options` below it (an expression for the list, or
    one for each), each behind its choice (A, B, … unless given); or `prompt`, which is the whole
    message. `definition` may have more fields of that name, such as `group_by` or
    other `scorers`.
    """
    if (question is None) == (prompt is None) or (options is None and choices is None):
        raise TypeError("`mcqa` needs `question` or `prompt`, and `options` or `choices`")
    texts = None if options is None else _write_expression(options)
    if choices is None:
        letters = f"'{_LETTERS}'"
        choices = f"{{{{ {letters}[:{texts} | length] | list }}}}"
    else:
        letters = _write_expression(choices)
    if prompt is None:
        listed = "" if texts is None else _OPTIONS % (letters, texts)
        prompt = f"{question}\n{listed}\n{_INSTRUCTION}"
    scorer: dict[str, object] = {
        "type": "string_equals_mcqa",
        "ground_truth_choice": truth,
        "choices": choices,
        "extraction": extraction,
    }
    if options is not None:
        scorer["options"] = options
    builder = {"type": "chat_completion", "input_messages": [{"role": "user", "content": prompt}]}
    fields = {
        "solver": {"type": "single_turn_solver", "input_builder": builder},
        "scorers": [scorer],
        **definition,
    }
    return load_task(
        {
            "key": key,
            "display_name": key,
            "description": key,
            "definition": fields,
        }
    )


def _write_expression(value: str | Sequence[str]) -> str:
    """Return the expression between the braces of a template; for a list, a list expression."""
    if not isinstance(value, str):
        return f"[{', '.join(map(_write_expression, value))}]"
    match = _LONE_EXPRESSION.fullmatch(value)
    if match is None:
        return json.dumps(value)
    if re.fullmatch(r"[\w.]+", match[1]):
        return match[1]
    return f"({match[1]})"
