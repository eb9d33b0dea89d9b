"""`export` and `export_prompts`: choose the form and write it to a file or stream."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TextIO, Unpack

from answerkey.errors import SpecError, listing, suggest
from answerkey.evaluate.display import Progress, ignore_progress
from answerkey.evaluate.dry_run import build_prompts
from answerkey.evaluate.pairs import AnyRun
from answerkey.evaluate.reopen import reopen
from answerkey.evaluate.run import RunOptions, TaskSource
from answerkey.exporters.every_eval_ever import EveryEvalEverExporter
from answerkey.exporters.rows import (
    Exporter,
    Write,
    iterate_frames,
    iterate_objects,
    write_csv,
    write_file,
    write_objects,
    write_whole,
)
from answerkey.runs import load_run, write_frames

CSV, PARQUET = "csv", "parquet"


class JsonLinesExporter(Exporter):
    """An object for each row, with the sample, the reply and the scores."""

    form = "jsonl"

    def write(self, write: Write) -> int:
        """Write a line for each row."""
        return write_objects(iterate_objects(self.opened), write)


class CsvExporter(Exporter):
    """The columns of `run.to_frame()`, safe for spreadsheets."""

    form = CSV

    def write(self, write: Write) -> int:
        """Write a header line and the rows."""
        frames = iterate_frames(self.opened)
        return write_csv(frames, write, is_raw=self.is_raw)


class ParquetExporter(Exporter):
    """The columns of `run.to_frame()` in a file."""

    form = PARQUET

    def write(self, write: Write) -> int:
        """Raise E119: a stream of text cannot hold Parquet."""
        del write
        message = "Parquet is not text and needs a file"
        raise SpecError("E119", message, hint="add `-o rows.parquet`")

    def save(self, path: Path) -> int:
        """Write the file."""
        frames = iterate_frames(self.opened)
        write_whole(path, partial(write_frames, frames=frames))
        return len(self.opened)


_EXPORTERS: tuple[type[Exporter], ...] = (
    JsonLinesExporter,
    CsvExporter,
    ParquetExporter,
    EveryEvalEverExporter,
)
FORMS = {exporter.form: exporter for exporter in _EXPORTERS}


@dataclass(frozen=True, slots=True)
class Exported:
    """How many rows were written, and how many were left out because the form cannot hold them."""

    rows: int
    left_out: int = 0


def export(
    run: AnyRun,
    to: str = "jsonl",
    path: str | Path | None = None,
    *,
    task: str | None = None,
    is_raw: bool = False,
    stream: TextIO | None = None,
) -> Exported:
    """Write the rows of one task, one for each sample and trial, to a file or to the stream.

    `to` is one of `FORMS`. Parquet needs a file. With `is_raw`, texts in CSV are not guarded
    against spreadsheet formulas. every_eval_ever writes rows, or, in a folder, its pair of files.
    """
    if to not in FORMS:
        hint = suggest(to, FORMS) or f"available forms: {listing(FORMS)}"
        raise SpecError("E119", f"`--to {to}`: unknown form", hint=hint)
    run = load_run(run)
    opened = reopen(run, task)
    exporter = FORMS[to](run, opened, is_raw)
    if path is None:
        out = stream or sys.stdout
        rows = exporter.write(lambda content: out.write(content.decode()))
    else:
        rows = exporter.save(Path(path))
    return Exported(rows, len(opened) - rows)


def export_prompts(
    path: TaskSource,
    out: str | Path,
    *,
    task: str | None = None,
    progress: Progress = ignore_progress,
    **options: Unpack[RunOptions],
) -> int:
    """Write the prompts of a task, one row for each sample and trial, and return their number.

    No model is called. The ending of the file decides between JSONL, CSV and Parquet.
    """
    form = Path(out).suffix[1:]
    if form not in {"jsonl", CSV, PARQUET}:
        hint = "name a file that ends in .parquet, .jsonl or .csv"
        raise SpecError("E119", f"`-o {out}`: the file extension is not a known form", hint=hint)
    count, frames = build_prompts(path, task, progress, **options)
    if form == PARQUET:
        write_whole(out, partial(write_frames, frames=frames))
        return count
    if form == CSV:
        return write_file(out, partial(write_csv, frames, is_raw=True))
    rows = chain.from_iterable(frame.iter_rows(named=True) for frame in frames)
    return write_file(out, partial(write_objects, rows))
