"""What is measured: mixes of rows, rules, and where truth and choices come from."""

from __future__ import annotations

from dataclasses import dataclass, fields

DEFAULT_RULE = "first_character"


@dataclass(frozen=True)
class Mix:
    """Shares of rows between 0 and 1.

    `unique`: options and labels that no other row has; `long`: completions of about a thousand
    characters; `unicode`: completions outside ASCII; `relabelled`: labels other than A to D.
    """

    unique: float = 0.0
    long: float = 0.05
    unicode: float = 0.02
    relabelled: float = 0.0

    def to_words(self) -> list[str]:
        """Return the mix as words of the generator's command line."""
        return [
            word
            for field in fields(self)
            for word in (f"--{field.name}", str(getattr(self, field.name)))
        ]


@dataclass(frozen=True)
class Templates:
    """How a task finds truth and choices, and the columns that this needs."""

    truth: str
    choices: str | list[str]
    columns: tuple[str, ...]


#: Both are columns of the dataset.
COLUMNS = Templates(
    "{{ sample.answer }}", "{{ sample.choices }}", ("answer", "choices", "completion")
)


@dataclass(frozen=True)
class Case:
    """A number of rows, their mix and format, and the task that scores them."""

    rows: int
    rule: str = DEFAULT_RULE
    templates: Templates = COLUMNS
    mix: Mix = Mix()
    ending: str = "parquet"
    shape: str = "rows"
    words: tuple[str, ...] = ()

    def describe_task(self) -> dict[str, object]:
        """Return the task file; JSON is YAML."""
        scorer = {
            "type": "string_equals_mcqa",
            "ground_truth_choice": self.templates.truth,
            "choices": self.templates.choices,
            "extraction": self.rule,
        }
        header = {
            "key": "bench",
            "display_name": "Bench",
            "description": "Recorded completions to score.",
        }
        return {**header, "definition": {"scorers": [scorer]}}
