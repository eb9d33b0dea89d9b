"""Small tables with the columns of well-known datasets, and what is to be recognised in each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

CAPITALS = (
    ("What is the capital of France?", ["Lyon", "Paris", "Nice", "Lille"], 1),
    ("What is the capital of Peru?", ["Lima", "Cusco", "Piura", "Tacna"], 0),
    ("What is the capital of Japan?", ["Osaka", "Kyoto", "Nagoya", "Tokyo"], 3),
    ("What is the capital of Kenya?", ["Mombasa", "Kisumu", "Nairobi", "Nakuru"], 2),
)
TRUTHS = ["B", "A", "D", "C"]
LETTERS = "ABCD"


@dataclass(frozen=True)
class Shape:
    """A table, what a dataset file would say of its columns, the truths, and the options of its
    first row.

    `suffix` names the format; `raw` stands in place of rows. `right` are the texts of the truths.
    """

    name: str
    rows: Sequence[Mapping[str, Any]]
    said: Mapping[str, object]
    truths: Sequence[str] = field(default_factory=lambda: list(TRUTHS))
    options: Sequence[str] = field(default_factory=lambda: CAPITALS[0][1])
    suffix: str = ".jsonl"
    raw: bytes | None = None
    passage: str | None = None
    right: Sequence[str] = ("Paris", "Lima", "Tokyo", "Nairobi")

    def write(self, folder: Path) -> Path:
        """Write the table into a folder and return its path."""
        path = folder / f"{self.name}{self.suffix}"
        if self.raw is not None:
            path.write_bytes(self.raw)
        elif self.suffix == ".parquet":
            pl.DataFrame([dict(row) for row in self.rows]).write_parquet(path)
        else:
            path.write_text(
                "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in self.rows), "utf-8"
            )
        return path


def make(**columns: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - whatever a dataset has
    """Return the four questions in other columns.

    A value is made of question, options and place.
    """
    return [
        {
            name.replace("__", " "): one(asked, options, place) if callable(one) else one
            for name, one in columns.items()
        }
        for asked, options, place in CAPITALS
    ]


def asked(question: str, options: list[str], place: int) -> str:  # noqa: ARG001
    """Return the question."""
    return question


def listed(question: str, options: list[str], place: int) -> list[str]:  # noqa: ARG001
    """Return the options."""
    return options


def letter(question: str, options: list[str], place: int) -> str:  # noqa: ARG001
    """Return the letter of the truth."""
    return LETTERS[place]


def index(question: str, options: list[str], place: int) -> int:  # noqa: ARG001
    """Return the place of the truth, from 0 on."""
    return place


def number(question: str, options: list[str], place: int) -> int:  # noqa: ARG001
    """Return the place of the truth, from 1 on."""
    return place + 1


def right(question: str, options: list[str], place: int) -> str:  # noqa: ARG001
    """Return the text of the truth."""
    return options[place]


def option(at: int) -> Any:  # noqa: ANN401 - a function
    """Return what gives the option at a place."""
    return lambda _question, options, _place: options[at]


def wrong(at: int) -> Any:  # noqa: ANN401 - a function
    """Return what gives one of the wrong options."""
    return lambda _question, options, place: [one for one in options if one != options[place]][at]


def labelled(question: str, options: list[str], place: int) -> dict[str, list[str]]:  # noqa: ARG001
    """Return options with their labels, as ARC has them."""
    return {"text": options, "label": list(LETTERS)}


def spread(*names: str) -> dict[str, Any]:
    """Return columns of their own for the options."""
    return {name: option(at) for at, name in enumerate(names)}


def inside(question: str, options: list[str], place: int) -> str:  # noqa: ARG001
    """Return a question with its options, as BBH has them."""
    return f"{question}\nOptions:\n" + "\n".join(
        f"({label}) {one}" for label, one in zip(LETTERS, options, strict=True)
    )


def number_id(question: str, options: list[str], place: int) -> str:  # noqa: ARG001
    """Return an id that each question has for itself."""
    return f"q{sum(map(ord, question))}"


TWO = [
    {"goal": "Open a jar.", "sol1": "Turn the lid.", "sol2": "Shake it.", "label": 0},
    {"goal": "Boil an egg.", "sol1": "Freeze it.", "sol2": "Heat water.", "label": 1},
]
GAPS = [
    {
        "qID": f"a-{answer}",
        "sentence": f"The cup is not in the bag: the _ is too {size}.",
        "answer": answer,
    }
    | {"option1": "cup", "option2": "bag"}
    for size, answer in (("big", "1"), ("small", "2"))
]
SOCIAL = [
    {"context": context, "question": "Why?", "label": label}
    | {"answerA": "tired", "answerB": "happy", "answerC": "late"}
    for context, label in (("Kim left early.", "1"), ("Lee stayed.", "3"))
]
RACE = [
    {
        "id": "high1.txt",
        "article": "Tom has a cat. The cat is black.",
        "questions": ["Who has a cat?", "Which colour has the cat?"],
        "options": [["Tom", "Ann", "Sue", "Max"], ["white", "red", "black", "grey"]],
        "answers": ["A", "C"],
    },
    {
        "id": "high2.txt",
        "article": "Ann is ill.",
        "questions": ["Who is ill?"],
        "options": [["Tom", "Ann", "Sue", "Max"]],
        "answers": ["B"],
    },
]
TRUTHFUL: list[dict[str, Any]] = [
    {
        "question": question,
        "mc1_targets": {"choices": texts, "labels": [1, 0, 0]},
        "mc2_targets": {"choices": [*texts, "it depends"], "labels": [1, 0, 0, 1]},
    }
    for question, texts in (
        ("Do vampires exist?", ["No", "Yes, in Romania", "Yes, at night"]),
        ("What happens if you eat seeds?", ["Nothing", "A plant grows", "You fall ill"]),
        ("Is the Earth flat?", ["It is round", "It is flat", "It is hollow"]),
    )
]
BOOLS = [
    {"question": "is water wet", "passage": "Water makes things wet.", "answer": True},
    {"question": "is fire cold", "passage": "Fire is hot.", "answer": False},
]
NUMBERED: list[dict[str, Any]] = [
    {"question": f"Who is {place}?", "options": [f"name {number}" for number in range(1, 31)]}
    | {"answer": place - 1}
    for place in (1, 27, 30)
]
SHEET = "Question;Option A;Option B;Option C;Option D;Answer\r\n" + "".join(
    ";".join([question, *options, options[place]]) + "\r\n" for question, options, place in CAPITALS
)
ABCD = list(LETTERS)
OPTION_AS = ["Option A", "Option B", "Option C", "Option D"]

SHAPES = [
    Shape(
        "mmlu",
        make(question=asked, subject="geography", choices=listed, answer=index),
        {"question": "question", "options": "choices", "truth": "answer:0", "category": "subject"},
        suffix=".parquet",
    ),
    Shape(
        "mmlu_pro",
        make(
            question_id=number_id,
            question=asked,
            options=listed,
            answer=letter,
            answer_index=index,
            cot_content="",
            category="maps",
            src="x",
        ),
        {
            "question": "question",
            "options": "options",
            "truth": "answer:label",
            "category": "category",
            "id": "question_id",
        },
        suffix=".parquet",
    ),
    Shape(
        "arc",
        [
            *make(id=number_id, question=asked, choices=labelled, answerKey=letter)[:3],
            {
                "id": "x4",
                "question": CAPITALS[3][0],
                "choices": {"text": CAPITALS[3][1], "label": ["1", "2", "3", "4"]},
                "answerKey": "3",
            },
        ],
        {"question": "question", "options": "choices", "truth": "answerKey:label", "id": "id"},
        ["B", "A", "D", "3"],
        suffix=".parquet",
    ),
    Shape(
        "arc_original",
        [
            {
                "id": number_id(*one),
                "question": {
                    "stem": one[0],
                    "choices": [
                        {"text": text, "label": label}
                        for text, label in zip(one[1], LETTERS, strict=True)
                    ],
                },
                "answerKey": LETTERS[one[2]],
            }
            for one in CAPITALS
        ],
        {
            "question": "question.stem",
            "options": "question.choices",
            "truth": "answerKey:label",
            "id": "id",
        },
    ),
    Shape(
        "hellaswag",
        make(
            ind=4,
            activity_label="Travel",
            ctx_a=asked,
            ctx_b="",
            ctx=asked,
            endings=listed,
            source_id="a",
            split="val",
            split_type="indomain",
            label=lambda _q, _o, place: str(place),
        ),
        {"question": "ctx", "options": "endings", "truth": "label:0"},
    ),
    Shape(
        "commonsenseqa",
        make(
            id=number_id,
            question=asked,
            question_concept="map",
            choices=lambda _q, options, _p: {"label": ABCD, "text": options},
            answerKey=letter,
        ),
        {"question": "question", "options": "choices", "truth": "answerKey:label", "id": "id"},
        suffix=".parquet",
    ),
    Shape(
        "openbookqa",
        make(id=number_id, question_stem=asked, choices=labelled, answerKey=letter, fact1="a fact"),
        {"question": "question_stem", "options": "choices", "truth": "answerKey:label", "id": "id"},
    ),
    Shape(
        "medmcqa",
        make(
            id=number_id,
            question=asked,
            **spread("opa", "opb", "opc", "opd"),
            cop=index,
            choice_type="single",
            exp="why",
            subject_name="Anatomy",
            topic_name="Arm",
        ),
        {
            "question": "question",
            "options": ["opa", "opb", "opc", "opd"],
            "truth": "cop:0",
            "category": "subject_name",
            "id": "id",
        },
    ),
    Shape(
        "medqa",
        make(
            id=number_id,
            sent1=asked,
            sent2="",
            **spread("ending0", "ending1", "ending2", "ending3"),
            label=index,
        ),
        {
            "question": "sent1",
            "options": ["ending0", "ending1", "ending2", "ending3"],
            "truth": "label:0",
            "id": "id",
        },
    ),
    Shape(
        "medqa_usmle",
        make(
            question=asked,
            answer=right,
            options=lambda _q, options, _p: dict(zip(LETTERS, options, strict=True)),
            meta_info="step1",
            answer_idx=letter,
        ),
        {"question": "question", "options": "options", "truth": "answer:text"},
    ),
    Shape(
        "sciq",
        make(
            question=asked,
            distractor3=wrong(2),
            distractor1=wrong(0),
            distractor2=wrong(1),
            correct_answer=right,
            support="Countries have capitals.",
        ),
        {
            "question": "question",
            "passage": "support",
            "options": ["correct_answer", "distractor1", "distractor2", "distractor3"],
            "truth": "correct_answer:text",
        },
        ["D", "B", "C", "B"],
        ["Lyon", "Nice", "Lille", "Paris"],
        passage="Countries have capitals.",
    ),
    Shape(
        "gpqa",
        make(
            **{
                "Pre-Revision Question": "old",
                "Question": asked,
                "Correct Answer": right,
                "Incorrect Answer 1": wrong(0),
                "Incorrect Answer 2": wrong(1),
                "Incorrect Answer 3": wrong(2),
                "Explanation": "why",
                "Record ID": number_id,
                "High-level domain": "Physics",
                "Subdomain": "Optics",
            }
        ),
        {
            "question": "Question",
            "options": [
                "Correct Answer",
                "Incorrect Answer 1",
                "Incorrect Answer 2",
                "Incorrect Answer 3",
            ],
            "truth": "Correct Answer:text",
            "category": "High-level domain",
            "id": "Record ID",
        },
        ["D", "B", "C", "B"],
        ["Lyon", "Nice", "Lille", "Paris"],
    ),
    Shape(
        "piqa",
        TWO,
        {"question": "goal", "options": ["sol1", "sol2"], "truth": "label:0"},
        ["A", "B"],
        ["Turn the lid.", "Shake it."],
        right=["Turn the lid.", "Heat water."],
    ),
    Shape(
        "winogrande",
        GAPS,
        {
            "question": "sentence",
            "options": ["option1", "option2"],
            "truth": "answer:1",
            "id": "qID",
        },
        ["A", "B"],
        ["cup", "bag"],
        right=["cup", "bag"],
    ),
    Shape(
        "siqa",
        SOCIAL,
        {
            "question": "question",
            "passage": "context",
            "options": ["answerA", "answerB", "answerC"],
            "truth": "label:1",
        },
        ["A", "C"],
        ["tired", "happy", "late"],
        passage="Kim left early.",
        right=["tired", "late"],
    ),
    Shape(
        "race",
        make(
            example_id="high1.txt", article="Maps.", question=asked, options=listed, answer=letter
        ),
        {
            "question": "question",
            "passage": "article",
            "options": "options",
            "truth": "answer:label",
        },
        passage="Maps.",
        suffix=".parquet",
    ),
    Shape(
        "race_nested",
        RACE,
        {
            "question": "questions",
            "passage": "article",
            "options": "options",
            "truth": "answers:label",
            "id": "id",
        },
        ["A", "C", "B"],
        ["Tom", "Ann", "Sue", "Max"],
        passage="Tom has a cat. The cat is black.",
        right=["Tom", "black", "Ann"],
    ),
    Shape(
        "race_own",
        [
            {name: row[name] for name in ("answers", "options", "questions", "article", "id")}
            for row in RACE
        ],
        {
            "question": "questions",
            "passage": "article",
            "options": "options",
            "truth": "answers:label",
            "id": "id",
        },
        ["A", "C", "B"],
        ["Tom", "Ann", "Sue", "Max"],
        suffix=".parquet",
        passage="Tom has a cat. The cat is black.",
        right=["Tom", "black", "Ann"],
    ),
    Shape(
        "belebele",
        make(
            link="https://example.org",
            question_number=1,
            flores_passage="Maps.",
            question=asked,
            **spread("mc_answer1", "mc_answer2", "mc_answer3", "mc_answer4"),
            correct_answer_num=lambda _q, _o, place: str(place + 1),
            dialect="eng_Latn",
            ds="2023-05-03",
        ),
        {
            "question": "question",
            "passage": "flores_passage",
            "options": ["mc_answer1", "mc_answer2", "mc_answer3", "mc_answer4"],
            "truth": "correct_answer_num:1",
        },
        passage="Maps.",
    ),
    Shape(
        "ceval",
        make(
            id=number_id,
            question=asked,
            **spread("A", "B", "C", "D"),
            answer=letter,
            explanation="",
        ),
        {"question": "question", "options": ABCD, "truth": "answer:label", "id": "id"},
    ),
    Shape(
        "cmmlu",
        (),
        {"question": "Question", "options": ABCD, "truth": "Answer:label"},
        suffix=".csv",
        raw=(
            ",Question,A,B,C,D,Answer\n"
            + "".join(
                f"{row},{question},{','.join(options)},{LETTERS[place]}\n"
                for row, (question, options, place) in enumerate(CAPITALS)
            )
        ).encode(),
    ),
    Shape(
        "global_mmlu",
        make(
            sample_id=number_id,
            subject="geography",
            subject_category="STEM",
            question=asked,
            **spread("option_a", "option_b", "option_c", "option_d"),
            answer=letter,
            culture="[]",
            cultural_sensitivity_label="CA",
            is_annotated=False,
        ),
        {
            "question": "question",
            "options": ["option_a", "option_b", "option_c", "option_d"],
            "truth": "answer:label",
            "category": "subject",
            "id": "sample_id",
        },
    ),
    Shape(
        "kmmlu",
        make(
            question=asked,
            answer=number,
            **spread("A", "B", "C", "D"),
            Category="Geography",
            Human__Accuracy=0.5,
        ),
        {"question": "question", "options": ABCD, "truth": "answer:1", "category": "Category"},
    ),
    Shape(
        "truthfulqa_mc1",
        TRUTHFUL,
        {
            "question": "question",
            "options": "mc1_targets.choices",
            "truth": "mc1_targets.labels:flag",
        },
        ["A", "C", "C"],
        ["No", "Yes, in Romania", "Yes, at night"],
        right=["No", "Nothing", "It is round"],
    ),
    Shape(
        "truthfulqa_original",
        [
            {
                "question": row["question"],
                "mc1_targets": dict(
                    zip(row["mc1_targets"]["choices"], row["mc1_targets"]["labels"], strict=True)
                ),
            }
            for row in TRUTHFUL
        ],
        {"question": "question", "options": "mc1_targets", "truth": "mc1_targets:flag"},
        ["A", "C", "C"],
        ["No", "Yes, in Romania", "Yes, at night"],
        right=["No", "Nothing", "It is round"],
    ),
    Shape(
        "logiqa",
        make(context="Maps.", query=asked, options=listed, correct_option=index),
        {
            "question": "query",
            "passage": "context",
            "options": "options",
            "truth": "correct_option:0",
        },
        passage="Maps.",
        suffix=".parquet",
    ),
    Shape(
        "agieval",
        make(
            passage=None,
            question=asked,
            options=lambda _q, options, _p: [
                f"({label}){one}" for label, one in zip(LETTERS, options, strict=True)
            ],
            label=letter,
            answer=None,
            other=None,
        ),
        {"question": "question", "options": "options", "truth": "label:label"},
    ),
    Shape(
        "agieval_hub",
        make(
            query=lambda question, _o, _p: f"Q: {question}",
            choices=lambda _q, options, _p: [
                f"({label}){one}" for label, one in zip(LETTERS, options, strict=True)
            ],
            gold=lambda _q, _o, place: [place],
        ),
        {"question": "query", "options": "choices", "truth": "gold:0"},
    ),
    Shape(
        "bbh",
        make(input=inside, target=lambda _q, _o, place: f"({LETTERS[place]})"),
        {"question": "input", "options": "input", "truth": "target:label"},
    ),
    Shape(
        "boolq",
        BOOLS,
        {"question": "question", "passage": "passage", "truth": "answer:true"},
        ["A", "B"],
        ["True", "False"],
        passage="Water makes things wet.",
        right=["True", "False"],
    ),
    Shape(
        "musr",
        (),
        {
            "question": "question",
            "passage": "narrative",
            "options": "choices",
            "truth": "answer_choice:text",
        },
        suffix=".csv",
        raw=(
            "narrative,question,choices,answer_index,answer_choice\n"
            + "".join(
                f'"Once, in a capital.",{question},"{options!r}",{place},{options[place]}\n'
                for question, options, place in CAPITALS
            )
        ).encode(),
        passage="Once, in a capital.",
    ),
    Shape(
        "labels_beside_texts",
        make(
            question=asked,
            choices=["A1", "A2", "A3", "A4"],
            options=listed,
            answer=lambda _q, _o, place: f"A{place + 1}",
        ),
        {
            "question": "question",
            "options": "options",
            "choices": "choices",
            "truth": "answer:label",
        },
    ),
    Shape(
        "texts_beside_labels",
        make(question=asked, options=ABCD, choices=listed, answer=letter),
        {
            "question": "question",
            "options": "choices",
            "choices": "options",
            "truth": "answer:label",
        },
    ),
    Shape(
        "numbered_options",
        NUMBERED,
        {"question": "question", "options": "options", "truth": "answer:0"},
        ["1", "27", "30"],
        NUMBERED[0]["options"],
        right=["name 1", "name 27", "name 30"],
    ),
    *(
        Shape(
            f"sheet_{name}",
            (),
            {"question": "Question", "options": OPTION_AS, "truth": "Answer:text"},
            suffix=".csv",
            raw=text.encode(encoding),
        )
        for name, text, encoding in (
            ("bom", SHEET.replace(";", ","), "utf-8-sig"),
            ("semicolons", SHEET, "utf-8-sig"),
            ("utf16", SHEET.replace(";", "\t"), "utf-16"),
            ("utf16_be", f"\ufeff{SHEET}", "utf-16-be"),
        )
    ),
    Shape(
        "sheet_of_columns",
        make(
            Question=asked,
            **spread(*OPTION_AS),
            **{"Correct Answer": lambda _q, _o, place: OPTION_AS[place]},
        ),
        {"question": "Question", "options": OPTION_AS, "truth": "Correct Answer:label"},
    ),
    Shape(
        "engineer",
        make(question=asked, options=listed, answer=index),
        {"question": "question", "options": "options", "truth": "answer:0"},
    ),
    Shape(
        "lower_case",
        make(question=asked, options=listed, answer=lambda *one: letter(*one).lower()),
        {"question": "question", "options": "options", "truth": "answer:label"},
    ),
    Shape(
        "texts_of_lists",
        (),
        {"question": "question", "options": "choices", "truth": "answer:text"},
        suffix=".csv",
        raw=(
            "question,choices,answer\n"
            + "".join(
                f'{question},"[{" ".join(map(repr, options))}]",{options[place]}\n'
                for question, options, place in CAPITALS
            )
        ).encode(),
    ),
]
