"""Questions in tables: which columns hold question, options and truth, and how a row is read.

`recognise` finds the columns of a table; `QuestionColumns.derive` adds columns that every task can
read.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import accumulate, takewhile

from answerkey.datasets.options import (
    MOST_OPTIONS,
    OptionList,
    OptionTexts,
    Texts,
    name_options,
    read_mark,
    read_option_texts,
    read_truth,
    split_question,
    to_text,
    write_cell,
)
from answerkey.datasets.rows import ID_COLUMN, Rows, get_inside, split_name
from answerkey.errors import DataError, Place, SpecError, listing, refuse_column, suggest
from answerkey.types import Sample, Samples

Row = Mapping[str, object]
#: The columns of each role, as a dataset file says them.
SaidNames = dict[str, str | list[str]]


# ── names of columns

#: What a column may be, and the names by which it is known, the likeliest first; case and marks
#: between words do not count. A column is one thing only: that of the first role that knows it.
_NAMES = {
    "passage": "passage context article story narrative paragraph background flores_passage "
    "support premise",
    "id": "sample_id custom_id question_id id qid doc_id index idx example_id record_id uuid",
    "question": "question question_text question_stem stem query problem input prompt sentence "
    "ctx goal startphrase sent1 text questions",
    "options": "options endings candidates alternatives option_texts choices answers "
    "answer_choices answer_options mc1_targets",
    "choices": "choices choice_labels option_labels labels letters",
    "answer": "answer answer_key correct_answer ground_truth groundtruth truth label target gold "
    "correct_option cop correct_choice answer_choice best_answer right_answer letter",
    "index": "answer_index correct_index label_index answer_idx groundtruth_answer "
    "correct_answer_num correct_answer_index correct_idx gold_index gold_label",
    "key": "correct key answers labels mc1_targets",
    "completion": "completion output response model_output model_outputs generated_text reply "
    "raw_output model_response generation prediction_text",
    "category": "category subject topic domain subset task subject_name high_level_domain "
    "subdomain",
    "trial": "trial epoch repeat",
    "score": "imported_score score is_correct correct acc exact_match",
    "predicted": "imported_answer pred prediction predicted predicted_answer extracted_answer "
    "extracted parsed_answer model_answer",
}
#: Roles of the truth, by how sure their names are; the caller calls it `truth`.
TRUTH_ROLES = ("answer", "index", "key")
#: What a row says of the question alone; of a question with a passage and its truth; of a log.
QUESTION_ROLES = ("question", "options", "choices", "answer", "index", "category")
DATASET_ROLES = tuple(role for role in _NAMES if role not in {"trial", "score", "predicted"})
LOG_ROLES = tuple(role for role in _NAMES if role not in {"passage", "key"})
#: What the caller, or a dataset file, may say of a table.
SAID_ROLES = ("question", "passage", "options", "choices", "truth", "category", "id", "completion")
#: How a truth names its option, and what that is called.
FORMS = {
    "label": "label",
    "0": "index from 0",
    "1": "index from 1",
    "text": "text of the option",
    "flag": "mark at the option",
    "yes": "yes or no",
    "true": "true or false",
}
#: The options of questions that have none but yes and no.
SAID_OPTIONS = {"yes": ["Yes", "No"], "true": ["True", "False"]}
#: How many rows are looked at to show people what a table holds.
LOOKED_AT = 2_000
#: Options in columns of their own: `A`, `B`, …; `option_a`, …; `choice1`, …
_NUMBERED = re.compile(
    r"(?P<stem>|option|choice|(?:mc_?)?answer|ending|opt?|sol)[_ ]?(?P<place>[a-z]|\d{1,2})"
)
_COUNTS = (
    list(string.ascii_lowercase),
    list(map(str, range(100))),
    list(map(str, range(1, 100))),
)


@lru_cache(1_024)
def fold_name(name: str) -> str:
    """Return a name without differences of case and of marks between words."""
    return re.sub(r"[\W_]+", "", name.casefold()) or name


FOLDED: dict[str, Texts] = {}
for _role, _names in _NAMES.items():
    FOLDED[_role] = tuple(map(fold_name, _names.split()))


def find_numbered(names: Sequence[str]) -> Texts:
    """Return the longest series of columns such as `A`, `B`, `C` or `choice0`, `choice1`."""
    series: dict[tuple[str, bool], dict[str, str]] = {}
    for name in names:
        match = _NUMBERED.fullmatch(name.strip().lower())
        if match:
            stem, place = match.groups()
            kind = (stem, place.isdigit())
            series.setdefault(kind, {})[place] = name
    longest: Texts = ()
    for places in series.values():
        for count in _COUNTS:
            consecutive = takewhile(places.__contains__, count)
            run = tuple(map(places.__getitem__, consecutive))
            if len(run) > max(1, len(longest)):
                longest = run
    return longest


# ── the first rows

FIRST_ROWS = 50


def load_first_rows(rows: Rows) -> Samples:
    """Return the first rows of a table, which show what kind of cells its columns have."""
    return rows.slice(0, FIRST_ROWS).load()


def has_column(preview: Samples, name: str) -> bool:
    """Return whether there is a column, or a field in a column that a dotted name reaches."""
    if name in preview.columns:
        return True
    for column, inside in split_name(name, preview.columns):
        fields = look_inside(preview, column)[1]
        if inside in fields or split_name(inside, fields):
            return True
    return False


def find_column(preview: Samples, name: str) -> str:
    """Return the column that a name means or, if it is dotted, reaches into."""
    if name in preview.columns:
        return name
    return split_name(name, preview.columns)[0][0]


def look_inside(preview: Samples, column: str) -> tuple[int, list[str]]:
    """Return how many lists are around what a column holds, and the fields of that."""
    cell: object = preview.values(column)
    depth = -1
    while isinstance(cell, list):
        cell = next(filter(None, cell), None)
        depth += 1
    if isinstance(cell, dict):
        return depth, list(cell)
    return depth, []


# ── columns


@dataclass(frozen=True)
class QuestionColumns:
    """The columns of a table by what they are.

    `spread` are those that hold the options, if several do. A truth names its option in a `form`.
    `unfolded` are columns that hold a list with an element for each question of a row. With
    `is_relabelled`, letters stand for the labels of some rows, which are longer.
    """

    columns: Mapping[str, str]
    spread: Texts = ()
    form: str | None = None
    unfolded: Texts = ()
    is_relabelled: bool = field(default=False, compare=False)

    @classmethod
    def of(
        cls,
        names: Mapping[str, str | Sequence[str]],
        rows: Rows,
    ) -> QuestionColumns:
        """Return the columns that the caller, or a dataset file, names for each role.

        E206 for a column that is not there. A truth may end with its form (`answer:0`, or `:0` for
        any column). Options may be several columns, with commas or as a list, the right answer's
        first.
        """
        preview = load_first_rows(rows)
        columns = {}
        spread: Texts = ()
        form = None
        for role, name in names.items():
            if not isinstance(name, str):
                spread = tuple(name)
            elif role == "options" and not has_column(preview, name):
                spread = tuple(name.split(","))
            elif name:
                columns[role] = name
        truth = columns.get("truth", "")
        column, _, ending = truth.rpartition(":")
        if ending in FORMS and not has_column(preview, truth):
            form = ending
            del columns["truth"]
            if column:
                columns["truth"] = column
        result = cls(columns, spread, form)
        for role, name in result.pairs:
            if not has_column(preview, name):
                message = f"{role}: there is no column `{name}`"
                where = Place(rows.file)
                raise refuse_column(message, name, rows.columns, where)
        return result.unfold(preview)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Each column with its role."""
        pairs = list(self.columns.items())
        pairs += [("options", name) for name in self.spread]
        return pairs

    def unfold(self, preview: Samples) -> QuestionColumns:
        """Return the same columns with those as `unfolded` that list an element for each question
        of a row, the question's first.
        """
        unfolded: dict[str, None] = {}
        if "question" in self.columns:
            question = find_column(preview, self.columns["question"])
            if look_inside(preview, question)[0]:
                unfolded[question] = None
        pairs = self.pairs if unfolded else []
        for role, name in pairs:
            column = find_column(preview, name)
            # Options are a list by themselves, unless they are a field of the questions.
            is_list = role == "options" and column == name
            if look_inside(preview, column)[0] > is_list:
                unfolded[column] = None
        return replace(self, unfolded=tuple(unfolded))

    def say(self) -> SaidNames:
        """Return what a dataset file says of the table."""
        names: SaidNames = dict(self.columns)
        if self.spread:
            names["options"] = list(self.spread)
        if self.form:
            names["truth"] = f"{self.columns['truth']}:{self.form}"
        return {role: names[role] for role in SAID_ROLES if role in names}

    def describe(self) -> str:
        """Return what is what, for people."""
        parts = {}
        for role, name in self.say().items():
            names = [name] if isinstance(name, str) else name
            parts[role] = listing(names)
        if self.form:
            parts["truth"] = f"`{self.columns['truth']}` ({FORMS[self.form]})"
        if self.has_options_in_question:
            parts["options"] = "in the question"
        elif self.is_shuffled:
            parts["options"] += " (shuffled)"
        if self.is_relabelled:
            parts["labels"] = "shown as A, B, …"
        texts = [f"{role} {text}" for role, text in parts.items()]
        if self.unfolded:
            texts.append("several questions in a row")
        return ", ".join(texts)

    @cached_property
    def has_options_in_question(self) -> bool:
        """Whether the options stand in the text of the question."""
        options = self.columns.get("options")
        return options is not None and options == self.columns.get("question")

    @cached_property
    def is_shuffled(self) -> bool:
        """Whether the table says which option is the right one by where it stands."""
        return self.columns.get("truth") in self.spread or self.form == "flag"

    @cached_property
    def taken(self) -> frozenset[str]:
        """The columns that are read, and those that hold a field that is read."""
        names: set[str] = set()
        for _, name in self.pairs:
            parts = name.split(".")
            names.update(accumulate(parts, "{}.{}".format))
        return frozenset(names)

    def has(self, role: str) -> bool:
        """Return whether the table has a part."""
        if role == "options" and (self.spread or self.form in SAID_OPTIONS):
            return True
        return role in self.columns

    def with_column(
        self,
        role: str,
        name: str,
    ) -> QuestionColumns:
        """Return the same columns with this one in a role."""
        columns = {**self.columns, role: name}
        return replace(self, columns=columns)

    def cell(
        self,
        row: Row,
        role: str,
    ) -> object:
        """Return what a row has in a role, None for nothing; a dotted name reaches into a cell."""
        name = self.columns.get(role)
        if name is None:
            return None
        return get_inside(row, name)

    def text(
        self,
        row: Row,
        role: str,
    ) -> str | None:
        """Return the text, or the number as text, that a row has in a role."""
        return write_cell(self.cell(row, role))

    # ── derived columns

    def derive(self, samples: Samples) -> Samples:
        """Return rows with a column for each part: `question`, `options`, `choices`, `truth`, ….

        Several questions in a row become a row each. `options` are texts; `choices` are labels:
        those of the table, or letters; `truth` is one of them, or what the table says if that names
        no option. Options are shuffled if the table tells the right one by its place. A column of
        the table with the name of a part is replaced.
        """
        items = []
        for sample in samples:
            try:
                questions = self.split_row(sample.fields)
                parts = list(map(self._derive_parts, questions))
            except DataError as error:
                raise locate_error(error, sample) from None
            for number, fields in enumerate(questions):
                row = type(sample.fields)({**fields, **parts[number]})
                sample_id = row.get(ID_COLUMN)
                if self.unfolded and sample_id is not None:
                    row[ID_COLUMN] = f"{sample_id}-{number + 1}"
                items.append(replace(sample, fields=row))
        columns = samples.columns
        if items:
            columns = list(items[0].fields)
        return replace(samples, items=items, columns=columns)

    def _derive_parts(self, row: Row) -> dict[str, object]:
        parts: dict[str, object] = {}
        for role in ("question", "passage", "category"):
            if role in self.columns:
                parts[role] = to_text(self.cell(row, role))
        if self.has("options"):
            parts |= self._derive_options(row)
        elif "choices" in self.columns:
            parts["choices"] = self._read_labels(row)
        if "truth" in self.columns and "truth" not in parts:
            parts["truth"] = read_truth(self.cell(row, "truth"))
        if "id" in self.columns:
            parts[ID_COLUMN] = to_text(self.cell(row, "id"))
        if "completion" in self.columns:
            parts["completion"] = self.cell(row, "completion")
        return parts

    def _derive_options(self, row: Row) -> dict[str, object]:
        """Return the options of a row, their labels, and the label of the truth if it names one."""
        parts: dict[str, object] = {"options": None, "choices": None}
        question = to_text(self.cell(row, "question"))
        if self.has_options_in_question:
            question, _ = split_question(question)
            parts["question"] = question
        options = self.read_options(row)
        if options is None:
            return parts
        place = self.find_place(row, options)
        if self.is_shuffled:
            options, place = options.shuffle(question, place)
        parts["options"] = options.texts
        parts["choices"] = options.choices
        if place is not None:
            parts["truth"] = options.choices[place]
        return parts

    def split_row(self, row: Row) -> list[Row]:
        """Return a row for each question that a row holds; a row without any stays one.

        E202 for lists of a row that are not equally long.
        """
        if not self.unfolded:
            return [row]
        lists: list[list[object]] = []
        for name in self.unfolded:
            cell = row.get(name)
            cells: list[object] = [None]
            if cell and isinstance(cell, list):
                cells = cell
            lists.append(cells)
        if len(set(map(len, lists))) > 1:
            message = f"the lists in {listing(self.unfolded)} are not equally long"
            where = Place(field=self.unfolded[0])
            raise DataError("E202", message, where=where)
        questions: list[Row] = []
        for elements in zip(*lists, strict=True):
            own_cells = dict(zip(self.unfolded, elements, strict=True))
            questions.append({**row, **own_cells})
        return questions

    def read_options(self, row: Row) -> OptionList | None:
        """Return the options of a row; None for none, E205 for too many."""
        texts, labels = self._read_texts(row)
        if not texts:
            return None
        if len(texts) > MOST_OPTIONS:
            message = f"a question has at most {MOST_OPTIONS:,} options, "
            message += f"and this one has {len(texts):,}"
            where = Place(field=self.columns.get("options"))
            raise DataError(
                "E205",
                message,
                where=where,
                hint="leave the row out",
            )
        if "choices" in self.columns and not self.has_options_in_question:
            labels = self._read_labels(row) or []
        return name_options(texts, labels)

    def _read_labels(self, row: Row) -> list[str] | None:
        """Return the labels that a row lists in a column of their own."""
        return read_option_texts(self.cell(row, "choices"))[0]

    def _read_texts(self, row: Row) -> OptionTexts:
        """Return the texts of a row's options, and their labels if the options have any."""
        if self.spread:
            return self._join_spread(row), []
        if "options" not in self.columns:
            return SAID_OPTIONS[str(self.form)], []
        cell = self.cell(row, "options")
        if self.has_options_in_question:
            return split_question(to_text(cell))[1], []
        return read_option_texts(cell)

    def _join_spread(self, row: Row) -> list[str]:
        """Return the options of several columns, up to the first that is empty.

        Beside a right answer, the wrong ones may be a list.
        """
        is_pair = self.is_shuffled and len(self.spread) == len(("right", "wrong"))
        texts = []
        for name in self.spread:
            cell = get_inside(row, name)
            is_list = isinstance(cell, list | dict)
            if isinstance(cell, str) and is_pair:
                is_list = cell.lstrip().startswith("[")
            listed = None
            if is_list:
                listed, _ = read_option_texts(cell)
            texts += listed or [to_text(cell) or ""]
        return list(takewhile(bool, map(str.strip, texts)))

    def find_place(
        self,
        row: Row,
        options: OptionList | None,
    ) -> int | None:
        """Return the place of the option that a row's truth names; None for none or several."""
        if options is None:
            return None
        cell = self.cell(row, "truth")
        count = len(options.texts)
        if self.form == "flag":
            place = read_mark(cell)
            if place in range(count):
                return place
            return None
        truth = read_truth(cell)
        if truth is None:
            return None
        if self.columns["truth"] in self.spread:
            return 0 if count > 1 else None
        return options.find_place(truth, self.form, self.spread)


def locate_error(error: DataError, sample: Sample) -> DataError:
    """Return the error of a row with the place of that row."""
    column = None
    if error.where is not None:
        column = error.where.field
    where = sample.place(column)
    return DataError(
        error.code,
        error.message,
        where=where,
        hint=error.hint,
    )


def require_roles(chosen: Mapping[str, str], roles: Texts) -> None:
    """Raise SpecError E119 for a role that no column can have; `truth` may be called `answer`."""
    for role in chosen.keys() - {"truth", "answer", *roles}:
        message = f"`--column {role}={chosen[role]}`: unknown part `{role}`"
        hint = suggest(role, roles) or f"parts: {listing(roles)}"
        raise SpecError("E119", message, hint=hint)


@lru_cache(64)
def find_columns(
    names: Texts,
    roles: Texts = QUESTION_ROLES,
    chosen: tuple[tuple[str, str], ...] = (),
) -> QuestionColumns:
    """Return which of some columns is what, by their names alone; `chosen` pairs role and name."""
    folded: dict[str, str] = {}
    for name in reversed(names):
        _, _, last_part = name.rpartition(".")
        folded[fold_name(last_part)] = name
    columns = dict(chosen)
    for role in roles:
        if role in columns:
            continue
        for likely in FOLDED[role]:
            if likely in folded and folded[likely] not in columns.values():
                columns[role] = folded[likely]
                break
    if "options" in columns:
        return QuestionColumns(columns)
    return QuestionColumns(columns, find_numbered(names))
