"""Which column of somebody's table is what, by the names that people give them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from answerkey.errors import SpecError, listing, suggest
from answerkey.exchange.fields import get_text, read_number
from answerkey.exchange.labels import LABELS, find_label, label_options, read_texts, take_labels
from answerkey.exchange.lines import Asked, Theirs

#: What a column may be, and the names by which it is known, the likeliest first.
ROLES: dict[str, tuple[str, ...]] = {
    "id": ("sample_id", "custom_id", "question_id", "id", "qid", "doc_id", "index", "idx"),
    "question": ("question", "question_stem", "query", "problem", "prompt", "input", "text"),
    "options": ("options", "choices", "endings", "candidates"),
    "choices": ("choice_labels", "labels", "letters"),
    "answer": (
        *("answer", "answerkey", "answer_key", "correct_answer", "ground_truth", "groundtruth", "label"),
        *("target", "gold", "correct_option", "cop"),
    ),
    "index": ("answer_index", "correct_index", "label_index", "answer_idx", "groundtruth_answer"),
    "completion": (
        *("completion", "output", "response", "model_output", "model_outputs", "generated_text", "reply"),
        *("raw_output", "model_response", "generation", "prediction_text"),
    ),
    "category": ("category", "subject", "topic", "domain", "subset", "task"),
    "trial": ("trial", "epoch", "repeat"),
    "score": ("their_score", "score", "is_correct", "correct", "acc", "exact_match"),
    "predicted": (
        *("their_answer", "pred", "prediction", "predicted", "predicted_answer", "extracted_answer"),
        *("extracted", "parsed_answer", "model_answer"),
    ),
}
#: Options in columns of their own: `A`, `B`, …; `option_a`, …; `choice1`, …
_SPREAD = ("{upper}", "option_{lower}", "option{upper}", "option_{upper}", "choice_{lower}", "choice_{upper}")
_COUNTED = ("option{number}", "option_{number}", "choice{number}", "choice_{number}")
_FEWEST = 2
_RIGHT = {"true": 1.0, "yes": 1.0, "correct": 1.0, "c": 1.0, "false": 0.0, "no": 0.0, "incorrect": 0.0}


@dataclass(frozen=True)
class Roles:
    """The columns of a table by what they are; `spread` are those that hold one option each."""

    columns: Mapping[str, str]
    spread: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """All columns that are something."""
        return frozenset({*self.columns.values(), *self.spread})

    def cell(self, row: Mapping[str, object], role: str) -> object:
        """Return what a row has in a role; None where there is nothing."""
        name = self.columns.get(role)
        return None if name is None else row[name] if name in row else _reach(row, name)

    def text(self, row: Mapping[str, object], role: str) -> str | None:
        """Return the text, or the number as text, that a row has in a role."""
        return get_text({"": self.cell(row, role)}, "")

    def read_asked(self, row: Mapping[str, object]) -> Asked:
        """Return what a row asks."""
        options, choices = self._find_choices(row)
        truth = find_label(self.cell(row, "answer"), choices, options)
        if truth is None and "index" in self.columns:
            truth = find_label(self.cell(row, "index"), choices, options, by_index=True)
        return Asked(
            question=self.text(row, "question"),
            choices=choices,
            options=options,
            truth=truth or self.text(row, "answer") or self.text(row, "index"),
            category=self.text(row, "category"),
            original={
                name: cell for name, cell in row.items() if name not in self.names and cell is not None
            },
        )

    def _find_choices(
        self, row: Mapping[str, object]
    ) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
        cell = self.cell(row, "options")
        stated = read_texts(self.cell(row, "choices"))
        if isinstance(cell, dict) and "text" in cell:
            options, stated = read_texts(cell["text"]), stated or read_texts(cell.get("label"))
        elif isinstance(cell, dict):
            options, stated = read_texts(cell), stated or read_texts(list(cell))
        else:
            options = read_texts(cell)
        if options is None and self.spread:
            options = tuple(self._take_spread(row)) or None
        labels = take_labels(stated) if stated else None
        if options is None:
            return None, labels
        if labels is not None and len(labels) == len(options):
            return options, labels
        if take_labels(options) == LABELS[: len(options)]:  # a list of letters says what may be answered
            return None, LABELS[: len(options)]
        return options, label_options(len(options))

    def _take_spread(self, row: Mapping[str, object]) -> Iterator[str]:
        """Yield the options of a row, up to the first that is empty."""
        for name in self.spread:
            text = get_text(row, name)
            if text is None or not text.strip():
                return
            yield text

    def read_theirs(self, row: Mapping[str, object], asked: Asked) -> Theirs:
        """Return the verdict that stands in a row."""
        read = self.text(row, "predicted")
        label = find_label(read, asked.choices, asked.options)
        cell = self.cell(row, "score")
        value = _RIGHT.get(cell.strip().lower()) if isinstance(cell, str) else None
        value = read_number(cell) if value is None else value
        if value is None and "score" not in self.columns and label is not None:
            value = float(label == asked.truth)
        return Theirs(value, label or read)


def _reach(value: object, name: str) -> object:
    """Return what a dotted name leads to inside a cell, the longest first part first; None for nothing."""
    if not isinstance(value, dict):
        return None
    if name in value:
        return value[name]
    places = [at for at, character in enumerate(name) if character == "."]
    found = ((value[name[:at]], name[at + 1 :]) for at in reversed(places) if name[:at] in value)
    return next((inside for one, rest in found if (inside := _reach(one, rest)) is not None), None)


def _is_there(name: str, names: Sequence[str]) -> bool:
    """Return whether a table has a column, or one that a dotted name may reach into."""
    return name in names or any(name.startswith(f"{one}.") for one in names)


def find_roles(names: Sequence[str], chosen: Mapping[str, str]) -> Roles:
    """Return which column is what; `chosen` is said by the caller, and E119 when it cannot be."""
    for role, name in chosen.items():
        if role not in ROLES:
            hint = suggest(role, ROLES) or f"what a column can be: {listing(ROLES)}"
            raise SpecError("E119", f"`--column {role}={name}`: nothing is called `{role}`", hint=hint)
        if not _is_there(name, names):
            hint = suggest(name, names) or f"columns: {listing(names)}"
            raise SpecError("E119", f"`--column {role}={name}`: there is no column `{name}`", hint=hint)
    lowered = {name.lower().strip(): name for name in reversed(names)}
    columns = dict(chosen)
    for role, known in ROLES.items():
        taken = set(columns.values())
        found = next((lowered[one] for one in known if one in lowered and lowered[one] not in taken), None)
        if role not in columns and found is not None:
            columns[role] = found
    spread = () if "options" in columns else _find_spread(lowered)
    return Roles(columns, spread)


def _find_spread(names: Mapping[str, str]) -> tuple[str, ...]:
    for form in (*_SPREAD, *_COUNTED):
        found = [
            names.get(form.format(upper=label, lower=label.lower(), number=number).lower())
            for number, label in enumerate(LABELS[:26], 1)
        ]
        present = found[: next((at for at, one in enumerate(found) if one is None), len(found))]
        if len(present) >= _FEWEST:
            return tuple(name for name in present if name)
    return ()
