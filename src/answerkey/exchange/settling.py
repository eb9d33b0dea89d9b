"""Drafts become two tables: what was asked, and what was said to it, in the same order.

Most logs have one line for each sample; their lines are copied. In others the same sample comes several times
(epochs), or questions and answers are apart. Of each line then a hash of its id is held in memory, and the
answers are put in order by way of files: first into stretches of samples, then within each stretch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from answerkey.errors import DataError, Place, listing
from answerkey.exchange.drafts import ASKED, SAID, LineDrafts
from answerkey.types import CompletionStatus

DATASET, COMPLETIONS = "dataset.parquet", "completions.parquet"
#: Rows that are put in order together.
STRETCH_ROWS = 65_536
#: A group of rows has at most about so many bytes.
_GROUP_BYTES = 32 * 2**20
_GROUP_ROWS = 131_072
_SHOWN = 5
NOT_IN_LOG = "the log has no completion of this sample"


@dataclass(frozen=True)
class Settled:
    """What became of the lines: `missing` trials are in no line, `again` lines were written anew later."""

    samples: int
    num_trials: int = 1
    missing: int = 0
    again: int = 0


@dataclass(frozen=True)
class Tables:
    """Where the tables go, and which columns they get."""

    drafts: LineDrafts
    folder: Path
    file: str

    @property
    def asked(self) -> list[str]:
        """The columns of the dataset: those that some line fills; the truth always."""
        wanted = self.drafts.seen.present | {"answer"}
        return ["sample_id", *(name for name in ASKED if name in wanted)]

    @property
    def said(self) -> list[str]:
        """The columns of the completions, without the trial."""
        wanted = self.drafts.seen.present | {"completion", "completion_status"}
        return ["sample_id", *(name for name in SAID if name in wanted)]

    def scan(self) -> pl.LazyFrame:
        """Return all lines."""
        return pl.scan_parquet(self.drafts.paths, glob=False)

    def sink(self, found: pl.LazyFrame, name: str) -> None:
        """Write a table."""
        seen = self.drafts.seen
        rows = _GROUP_BYTES * seen.lines // max(seen.characters, 1)
        found.sink_parquet(
            self.folder / name,
            compression="zstd",
            compression_level=1,
            statistics=False,
            row_group_size=max(1_000, min(rows, _GROUP_ROWS)),
        )


def settle_lines(drafts: LineDrafts, folder: Path, *, file: str, last_wins: bool) -> Settled:
    """Write the tables of all lines into a folder; DataError when lines do not fit together.

    Without any line that asks, there are only completions.
    """
    tables = Tables(drafts, folder, file)
    lines = tables.scan().select(
        pl.col("sample_id").hash().alias("hash"), pl.col("trial"), "is_asked", "is_said"
    )
    keys = lines.collect().with_row_index("row")
    if keys["is_asked"].all() and keys["is_said"].all() and keys["hash"].n_unique() == keys.height:
        tables.sink(tables.scan().select(tables.asked), DATASET)
        tables.sink(tables.scan().select(tables.said), COMPLETIONS)
        return Settled(keys.height)
    return _settle_apart(tables, keys, last_wins=last_wins)


def _settle_apart(tables: Tables, keys: pl.DataFrame, *, last_wins: bool) -> Settled:
    said, again = _drop_again(tables, keys.filter("is_said"), last_wins=last_wins)
    numbers = said["trial"].unique().sort()
    said = said.with_columns(numbers.search_sorted(said["trial"]).cast(pl.Int64).alias("trial"))
    asked = keys.filter("is_asked").unique("hash", keep="first", maintain_order=True)
    if not asked.height:
        asked = said.unique("hash", keep="first", maintain_order=True)
    samples = asked.select("hash", pl.col("row").alias("first")).with_row_index("sample")
    found = said.join(samples, on="hash", how="left", maintain_order="left")
    unknown = found.filter(pl.col("sample").is_null())
    if unknown.height:
        raise _refuse_unknown(tables, unknown)
    size = max(1, len(numbers))
    if keys["is_asked"].any():
        tables.sink(_pick(tables, samples["first"], tables.asked), DATASET)
    stage = _Stage(tables, size, samples["first"])
    stage.fill(found.select("row", "sample", "trial"))
    tables.sink(stage.read(), COMPLETIONS)
    missing = samples.height * size - found.height
    return Settled(samples.height, size, missing, again)


def _drop_again(tables: Tables, said: pl.DataFrame, *, last_wins: bool) -> tuple[pl.DataFrame, int]:
    """Return the lines without those that were written anew later; E208 where none may be."""
    is_again = said.select("hash", "trial").is_duplicated()
    if not is_again.any():
        return said, 0
    if not last_wins:
        rows = said.filter(is_again & ~pl.struct("hash", "trial").is_first_distinct())["row"]
        message = f"samples are there twice: {_list_ids(tables, rows)}"
        hint = "import the files of one run at a time"
        raise DataError("E208", message, where=Place(file=tables.file), hint=hint)
    kept = said.unique(["hash", "trial"], keep="last", maintain_order=True)
    return kept, said.height - kept.height


def _refuse_unknown(tables: Tables, unknown: pl.DataFrame) -> DataError:
    ids = _list_ids(tables, unknown["row"])
    message = f"completions without a question: {unknown.height} ({ids})"
    hint = "the ids of the log and of the dataset must be the same"
    return DataError("E209", message, where=Place(file=tables.file), hint=hint)


def _list_ids(tables: Tables, rows: pl.Series) -> str:
    ids = _pick(tables, rows.unique().sort().head(_SHOWN), ["sample_id"]).collect()["sample_id"].to_list()
    return listing(ids) + (" ..." if len(rows) > _SHOWN else "")


def _pick(tables: Tables, rows: pl.Series, columns: Sequence[str]) -> pl.LazyFrame:
    """Return the lines at some places, which ascend."""
    wanted = pl.LazyFrame({"row": rows.cast(pl.UInt32)})
    lines = tables.scan().with_row_index("row")
    return lines.join(wanted, on="row", how="semi", maintain_order="left").select(columns)


class _Stage:
    """Answers on their way into the order of the samples: files, each of some samples that follow."""

    def __init__(self, tables: Tables, size: int, firsts: pl.Series) -> None:
        self._tables = tables
        self._size = size
        self._samples = len(firsts)
        self._step = max(1, STRETCH_ROWS // size)
        self._folder = tables.drafts.paths[0].parent
        self._ids = self._folder / "ids.parquet"
        _pick(tables, firsts, ["sample_id"]).sink_parquet(self._ids)

    def fill(self, places: pl.DataFrame) -> None:
        """Put each answer into the file of its stretch; `places` are of lines, in their order."""
        for number, path in enumerate(self._tables.drafts.paths):
            frame = pl.read_parquet(path, glob=False).select(self._tables.said)
            start = self._starts[number]
            own = places.filter(pl.col("row").is_between(start, start + frame.height - 1))
            rows = frame[own["row"] - start].with_columns(own["sample"], own["trial"])
            self._put(rows, number)

    def _put(self, rows: pl.DataFrame, number: int) -> None:
        stretches = rows.with_columns((pl.col("sample") // self._step).alias("stretch"))
        for (stretch,), part in stretches.partition_by("stretch", as_dict=True, include_key=False).items():
            part.write_parquet(self._name(int(stretch), f"{number:06d}"), compression="lz4", statistics=False)

    def _name(self, stretch: int, part: str) -> Path:
        return self._folder / f"said-{stretch:06d}-{part}.parquet"

    @property
    def _starts(self) -> list[int]:
        heights = [_count_rows(path) for path in self._tables.drafts.paths]
        return [sum(heights[:number]) for number in range(len(heights))]

    def read(self) -> pl.LazyFrame:
        """Return all answers in the order of samples and trials; one that is missing is an ERROR."""
        paths = list(self._order())
        return pl.scan_parquet(paths, glob=False)

    def _order(self) -> Iterator[Path]:
        for stretch, offset in enumerate(range(0, self._samples, self._step)):
            grid = self._lay_grid(offset)
            parts = sorted(self._folder.glob(f"said-{stretch:06d}-*.parquet"))
            said = pl.concat([pl.read_parquet(part, glob=False) for part in parts]) if parts else None
            ordered = _fill_grid(grid, said, self._tables.said)
            path = self._name(stretch, "ordered")
            ordered.write_parquet(path, compression="lz4", statistics=False)
            yield path

    def _lay_grid(self, offset: int) -> pl.DataFrame:
        """Return every trial of some samples, in order."""
        ids = pl.scan_parquet(self._ids, glob=False).slice(offset, self._step).collect()
        samples = ids.with_columns((offset + pl.int_range(pl.len())).cast(pl.UInt32).alias("sample"))
        trials = pl.DataFrame({"trial": pl.int_range(0, self._size, dtype=pl.Int64, eager=True)})
        return samples.join(trials, how="cross", maintain_order="left_right")


def _fill_grid(grid: pl.DataFrame, said: pl.DataFrame | None, columns: Sequence[str]) -> pl.DataFrame:
    if said is None:
        schema = {name: SAID[name] for name in columns if name in SAID}
        said = pl.DataFrame(schema={"sample": pl.UInt32(), "trial": pl.Int64(), **schema})
    else:
        said = said.drop("sample_id")
    filled = grid.join(said, on=["sample", "trial"], how="left", maintain_order="left")
    is_missing = pl.col("completion_status").is_null()
    filled = filled.with_columns(
        pl.col("completion_status").fill_null(CompletionStatus.ERROR.value),
        pl.when(is_missing)
        .then(pl.lit(NOT_IN_LOG))
        .otherwise(pl.col("error") if "error" in columns else None)
        .alias("error"),
    )
    rest = [name for name in columns if name not in {"sample_id", "error"}]
    return filled.select("sample_id", "trial", *rest, "error")


def _count_rows(path: Path) -> int:
    return int(pl.scan_parquet(path, glob=False).select(pl.len()).collect().item())
