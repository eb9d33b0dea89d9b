"""What a judge is asked: the user's prompts on a sample and its completion, and the form of the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from answerkey.scorers.judge_reading import CONFIDENCE, REASONING, SCORE, Scale
from answerkey.templates import Template
from answerkey.types import Completion, Sample

#: What the prompts of a judge may use.
NAMES = ("sample", "solver_output", "model_output", "messages", "input_prompt", "trace", "model_outputs")

Prompt = Sequence[Mapping[str, object]]


class ModelOutput(str):
    """The text that is judged; `choices` and `usage` of the whole reply can be reached through it.

    Files of both eras write `{{ model_output }}` and `{{ model_output.choices[0].message.content }}`.
    """

    __slots__ = ("choices", "usage")
    choices: object
    usage: object

    @classmethod
    def of(cls, text: str, output: object) -> Self:
        """Return the text with the parts of its reply."""
        whole = output if isinstance(output, Mapping) else {}
        said = cls(text)
        said.choices, said.usage = whole.get("choices"), whole.get("usage")
        return said


def build_context(sample: Sample, completion: Completion) -> dict[str, object]:
    """Return what the prompts see; `input_prompt` is the text that is judged, as the format calls it."""
    solver_output = completion.solver_output()
    text = read_judged_text(completion)
    return {
        "sample": sample,
        "solver_output": solver_output,
        "model_output": ModelOutput.of(text, solver_output["output"]),
        "messages": solver_output["messages"],
        "input_prompt": text,
        "trace": solver_output["trace"],
        "model_outputs": solver_output["model_outputs"],
    }


def read_judged_text(completion: Completion) -> str:
    """Return the text that is judged: the answer, the words of a refusal, or nothing."""
    if completion.text is not None:
        return completion.text
    refusal = (completion.reply or {}).get("refusal")
    return refusal if isinstance(refusal, str) else ""


def build_prompt(
    system: Template | None, user: Template, context: Mapping[str, object], scale: Scale
) -> list[dict[str, object]]:
    """Return the messages for one sample; the form of the answer stands last. Raise RowTrouble."""
    asked = f"{user.render(**context).rstrip()}\n\n{describe_form(scale)}"
    prompt: list[dict[str, object]] = [{"role": "user", "content": asked}]
    return prompt if system is None else [{"role": "system", "content": system.render(**context)}, *prompt]


def describe_form(scale: Scale) -> str:
    """Return the sentence that says how the judge is to answer."""
    return (
        "Answer with one JSON object and nothing else:\n"
        f'{{"{REASONING}": "<why, in a few sentences>", "{SCORE}": <a number {scale.words}>, '
        f'"{CONFIDENCE}": <how sure you are, a number from 0 to 1>}}'
    )


def build_repair(prompt: Prompt, said: str | None, why: str, scale: Scale) -> list[dict[str, object]]:
    """Return the messages that ask once more, with what was said and what is wrong with it."""
    again = f"Your reply could not be used: {why}. {describe_form(scale)}"
    if said and said.strip():
        return [
            *map(dict, prompt),
            {"role": "assistant", "content": said},
            {"role": "user", "content": again},
        ]
    # Some endpoints refuse an empty message, so an empty reply is not repeated to the judge.
    *earlier, last = prompt
    return [*map(dict, earlier), {**last, "content": f"{last['content']}\n\n{again}"}]
