"""Datasets to measure with: questions, options, choices, truths and completions, in any number and
mix.

    python bench/generating.py rows.parquet --rows 1000000 --long 0.05 --unicode 0.02 --unique 0

The file's ending says its format: .parquet, .jsonl or .csv. Rows are made and written in groups, so
that memory does not grow with their number; the same arguments give the same rows.

Columns: `question`, `options` (four texts, each beginning with its label), `position` (of the right
option), `choices` (the labels), `answer` (the right label), `completion`. With `--shape flat` there
are no lists, with `--shape lm-eval` each row is a sample as lm-eval writes it. With `--shape
replies` or `--shape chains`, the completions are those of `reader.py`, no two alike.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
from reader import list_chains, list_replies
from workloads import Mix

GROUP_ROWS = 131_072
SHAPES = ("rows", "flat", "lm-eval", "replies", "chains")
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
#: The labels of rows that are not unique; the first is the usual one.
LABELS = ("ABCD", "1234", "WXYZ")
PLACES = (
    "the harbour",
    "a small village",
    "the old capital",
    "an island",
    "the river",
    "two hills",
    "a desert",
)

#: What stands around the label in a short completion; {o} is the text of the option, {n} the row's
#: number.
SHORT = (
    *[("", "")] * 8,
    *[("", ".")] * 4,
    *[(" ", "")] * 2,
    *[("", ") {o}")] * 4,
    *[("", ". {o}")] * 4,
    *[("", ", because of point {n}.")] * 3,
    ("(", ")"),
    ("**", "**"),
    ("Answer: ", ""),
    ("The answer is ", "."),
    ("", " or none of them"),
    ("", "/A"),
    ("", "\n\nThe others can be ruled out."),
)
#: The same where normalisation, graphemes or other scripts matter.
UNICODE = (
    ("", "。"),
    ("", "、里昂"),
    ("答案是", ""),
    ("Réponse : ", ""),
    ("", "\u0301"),
    ("\u3000", ""),
    ("\u200b", "."),
    ("« ", " »"),
    ("", "\u2013Z"),
    ("", " — {o}, 正しい"),
    ("Ответ: ", ""),
    ("", "\u2019s"),
)
SENTENCES = (
    "Let us look at each of the options in turn and see which of them can be ruled out at once.",
    (
        "The passage does not say so directly, but it follows from the second sentence "
        "that the date is wrong."
    ),
    (
        "If the first statement held, the number would have to be even, which contradicts "
        "what was given."
    ),
    "It is tempting to choose the longest option, and yet nothing in the text speaks for it.",
    "Compare the two quantities: the one grows with the square, the other only in proportion.",
    "That leaves two candidates, and only one of them agrees with the figure in the table.",
    "A common mistake is to read the question as one about causes; it asks about consequences.",
    "Put the values in: 3 times 14 is 42, less the 7 that were taken away before, which is 35.",
)
LONG_SENTENCES = 12


def draw(rows: pl.Series, salt: int, below: int) -> pl.Series:
    """Return a number below `below` for each row; another salt gives other numbers."""
    first = rows * 6364136223846793005 + (salt * 1442695040888963407) % 2**63
    mixed = (first ^ (first // 2**31)) * 3935559000370003845
    return ((mixed ^ (mixed // 2**29)) // 2**16) % below


def choose(rows: pl.Series, salt: int, share: float) -> pl.Series:
    """Return for each row whether it belongs to a random share."""
    return draw(rows, salt, 1_000_000) < round(share * 1_000_000)


def unpack_labels(rows: pl.Series) -> pl.DataFrame:
    """Return four distinct characters for each row, `own0` to `own3`: no two rows have the same
    four.

    The row's number is written with the digits of a choice without repetition: 62 x 61 x 60 x 59
    ways.
    """
    size = len(ALPHABET)
    ways = size * (size - 1) * (size - 2) * (size - 3)
    frame = rows.to_frame("left").select(left=pl.col("left") * 7_368_787 % ways)
    for place in range(4):
        name, base = f"own{place}", size - place
        frame = frame.with_columns((pl.col("left") % base).alias(name), left=pl.col("left") // base)
        for earlier in _sort_taken(place):
            skipped = pl.col(name) >= earlier
            frame = frame.with_columns(pl.col(name) + skipped.cast(pl.UInt64))
    letters = pl.Series(list(ALPHABET))
    return pl.DataFrame({f"own{place}": letters.gather(frame[f"own{place}"]) for place in range(4)})


def _sort_taken(place: int) -> list[pl.Expr]:
    """Return the characters that earlier positions use, in ascending order."""
    names = [f"own{earlier}" for earlier in range(place)]
    if not names:
        return []
    least, most = pl.min_horizontal(names), pl.max_horizontal(names)
    middle = pl.sum_horizontal(names) - least - most
    return {1: [least], 2: [least, most], 3: [least, middle, most]}[place]


def make_rows(start: int, stop: int, mix: Mix) -> pl.DataFrame:
    """Return the rows from `start` to `stop`."""
    rows = pl.int_range(start, stop, dtype=pl.UInt64, eager=True)
    unique = choose(rows, 1, mix.unique)
    labels = draw(rows, 2, len(LABELS) - 1) + 1
    usual = pl.Series(LABELS).gather(labels * choose(rows, 10, mix.relabelled).cast(pl.UInt32))
    words = pl.Series(PLACES)
    letters = unpack_labels(rows)
    frame = pl.DataFrame(
        {"row": rows, "unique": unique, "position": draw(rows, 3, 4), "said": draw(rows, 4, 4)}
    )
    for place in range(4):
        frame = frame.with_columns(
            pl.when(unique)
            .then(letters[f"own{place}"])
            .otherwise(usual.str.slice(place, 1))
            .alias(f"label{place}"),
            words.gather(draw(rows, 10 + place, len(words))).alias(f"text{place}"),
        )
    frame = frame.with_columns(
        pl.when("unique")
        .then(pl.format("{} ({})", f"text{place}", "row"))
        .otherwise(f"text{place}")
        .alias(f"text{place}")
        for place in range(4)
    )
    # Three in five say the truth, the others what was drawn.
    wording = pl.when(choose(rows, 5, 0.6)).then("position").otherwise("said")
    frame = frame.with_columns(letter=_pick("label", wording), option=_pick("text", wording))
    return frame.select(
        question=pl.format("Question {}: what lies beside {}?", pl.col("row") + 1, "text0"),
        options=pl.concat_list(
            pl.format("{}) {}", f"label{place}", f"text{place}") for place in range(4)
        ),
        position=pl.col("position").cast(pl.Int64),
        choices=pl.concat_list(f"label{place}" for place in range(4)),
        answer=_pick("label", pl.col("position")),
        completion=_make_completions(frame, mix),
    )


def _pick(name: str, place: pl.Expr) -> pl.Expr:
    """Return, row by row, the value of the column that the position names."""
    return pl.coalesce(pl.when(place == number).then(f"{name}{number}") for number in range(4))


def _make_completions(frame: pl.DataFrame, mix: Mix) -> pl.Series:
    rows = frame["row"]
    short, unusual = _wrap(frame, SHORT, 6), _wrap(frame, UNICODE, 7)
    is_long = choose(rows, 8, mix.long)
    text = pl.when(choose(rows, 9, mix.unicode)).then(unusual).otherwise(short)
    return frame.select(
        pl.when(is_long).then(_write_at_length(frame, is_long)).otherwise(text)
    ).to_series()


def _wrap(frame: pl.DataFrame, forms: tuple[tuple[str, str], ...], salt: int) -> pl.Series:
    places = draw(frame["row"], salt, len(forms))
    before, after = (pl.Series([form[side] for form in forms]).gather(places) for side in (0, 1))
    number = pl.col("row").cast(pl.String)
    ending = (
        pl.when(after.str.contains("{o}", literal=True))
        .then(after.str.head(-3) + pl.col("option"))
        .when(after.str.contains("{n}", literal=True))
        .then(after.str.head(-4) + number + ".")
        .otherwise(after)
    )
    return frame.select(before + pl.col("letter") + ending).to_series()


def _write_at_length(frame: pl.DataFrame, is_long: pl.Series) -> pl.Series:
    """Return about a thousand characters for the rows that are long: the answer first, or last."""
    chosen = frame.filter(is_long)
    sentences, rows = pl.Series(SENTENCES), chosen["row"]
    body = pl.concat_str(
        [
            sentences.gather(draw(rows, 20 + place, len(SENTENCES)))
            for place in range(LONG_SENTENCES)
        ],
        separator=" ",
    )
    first = pl.col("letter") + pl.lit(".\n\n") + body
    last = body + pl.format("\n\nSo, by point {}, the answer is {}.", "row", "letter")
    texts = chosen.select("row", text=pl.when(choose(rows, 30, 0.75)).then(first).otherwise(last))
    return frame.select("row").join(texts, on="row", how="left", maintain_order="left")["text"]


def make_texts(start: int, stop: int, shape: str) -> pl.DataFrame:
    """Return rows with the texts that the reader is measured with, a number in front of each."""
    texts = list_replies() if shape == "replies" else list_chains()
    rows = [
        {
            "question": f"Question {row}?",
            "options": list(options) if options else [f"option {label}" for label in choices],
            "choices": list(choices),
            "answer": choices[row % len(choices)],
            "completion": f"{row} {text}",
        }
        for row in range(start, stop)
        for text, choices, options in [texts[row % len(texts)]]
    ]
    return pl.DataFrame(rows)


def make_samples(start: int, stop: int, mix: Mix) -> pl.DataFrame:
    """Return samples of a `generate_until` task as lm-eval writes them."""
    rows = make_rows(start, stop, mix)
    lines = pl.concat_str([pl.col("options").list.get(place) for place in range(4)], separator="\n")
    text = pl.concat_list("completion")
    return rows.select(
        doc_id=pl.int_range(start, stop),
        doc=pl.struct("question", "options", "answer"),
        target="answer",
        arguments=pl.struct(
            gen_args_0=pl.struct(
                arg_0=pl.format("{}\n{}\nAnswer:", "question", lines),
                arg_1=pl.struct(
                    until=pl.lit(["\n\n"], pl.List(pl.String)), max_gen_toks=pl.lit(64)
                ),
            )
        ),
        resps=pl.concat_list(text.implode().over(pl.int_range(pl.len()))),
        filtered_resps=text,
        filter=pl.lit("none"),
        metrics=pl.lit(["exact_match"], pl.List(pl.String)),
        doc_hash=pl.col("question").hash().cast(pl.String),
        exact_match=(pl.col("completion").str.slice(0, 1) == pl.col("answer")).cast(pl.Float64),
    )


def make_shape(start: int, stop: int, mix: Mix, shape: str) -> pl.DataFrame:
    """Return the rows from `start` to `stop` in a shape."""
    if shape in {"replies", "chains"}:
        return make_texts(start, stop, shape)
    if shape == "lm-eval":
        return make_samples(start, stop, mix)
    rows = make_rows(start, stop, mix)
    return rows if shape == "rows" else rows.select("question", "position", "answer", "completion")


def write_dataset(
    path: Path,
    rows: int,
    mix: Mix,
    shape: str = "rows",
    *,
    group_rows: int = GROUP_ROWS,
    by_pyarrow: bool = False,
) -> None:
    """Write a dataset, group by group; what pyarrow writes is held in memory first."""
    from polars.io.plugins import register_io_source

    def yield_groups(
        columns: list[str] | None, _predicate: object, _rows: int | None, _size: int | None
    ) -> Iterator[pl.DataFrame]:
        for start in range(0, rows, GROUP_ROWS):
            group = make_shape(start, min(start + GROUP_ROWS, rows), mix, shape)
            yield group if columns is None else group.select(columns)

    frame = register_io_source(yield_groups, schema=make_shape(0, 1, mix, shape).schema)
    if by_pyarrow:
        import pyarrow.parquet

        pyarrow.parquet.write_table(frame.collect().to_arrow(), path, row_group_size=group_rows)
    elif path.suffix == ".parquet":
        frame.sink_parquet(path, row_group_size=group_rows)
    elif path.suffix == ".jsonl":
        frame.sink_ndjson(path)
    else:
        lists = (
            pl.format('["{}"]', pl.col(name).list.join('","')).alias(name)
            for name in ("options", "choices")
            if shape == "rows"
        )
        frame.with_columns(lists).sink_csv(path)


def main() -> int:
    """Write the dataset that the command line describes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", type=Path)
    parser.add_argument("--rows", type=int, default=10_000)
    for share in ("unique", "long", "unicode", "relabelled"):
        parser.add_argument(
            f"--{share}", type=float, default=getattr(Mix, share), help="share of rows, 0 to 1"
        )
    parser.add_argument("--shape", choices=SHAPES, default=SHAPES[0])
    parser.add_argument(
        "--group-rows", type=int, default=GROUP_ROWS, help="rows of a row group of Parquet"
    )
    parser.add_argument(
        "--pyarrow", action="store_true", help="Parquet as pyarrow writes it: small pages"
    )
    options = parser.parse_args()
    mix = Mix(options.unique, options.long, options.unicode, options.relabelled)
    write_dataset(
        options.path,
        options.rows,
        mix,
        options.shape,
        group_rows=options.group_rows,
        by_pyarrow=options.pyarrow,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
