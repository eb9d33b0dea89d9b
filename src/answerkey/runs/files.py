"""Files that are either there whole or not there at all."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import polars as pl

from answerkey.errors import RunError


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file under another name, flush it to disk, then give it its name."""
    draft = path.with_name(f".{path.name}.draft")
    try:
        write(draft)
        with draft.open("rb") as stream:
            os.fsync(stream.fileno())
        draft.replace(path)
        _flush_folder(path.parent)
    except (OSError, pl.exceptions.PolarsError) as error:
        draft.unlink(missing_ok=True)
        raise RunError(
            "E502",
            f"cannot write `{path}`: {error}",
            hint="check the free space and the rights of the folder, or choose another with `--out`",
        ) from error


def _flush_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_json(path: Path, content: object) -> None:
    """Write JSON that any reader accepts: UTF-8, no NaN."""
    text = json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    write_whole(path, lambda draft: _write_text(draft, text))


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", errors="backslashreplace")


def write_frame(path: Path, frame: pl.DataFrame) -> None:
    """Write a Parquet file."""
    write_whole(path, frame.write_parquet)


def read_json(path: Path) -> dict[str, object]:
    """Return a JSON object from a run folder; E503 when the file is missing or damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(
            "E503", f"cannot read `{path}`: {error}", hint="the run folder is damaged or incomplete"
        ) from error
    if not isinstance(content, dict):
        raise RunError("E503", f"`{path}` does not hold a JSON object", hint="the run folder is damaged")
    return content


def join_parts(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return parts as one frame; a field that some parts lack is null there, differing types become text."""
    return pl.concat(parts, how="vertical_relaxed") if parts else pl.DataFrame()


def unify_parts(folder: Path) -> None:
    """Give all parts of a table the same schema, so that any reader can read them as one.

    They differ when a scorer of the user's own gives numbers for some shards and texts for others, or a name
    for some only. Nothing is written when they do not; a part is replaced whole.
    """
    schemas = {part: _read_schema(part) for part in sorted(folder.glob("part-*.parquet"))}
    if all(schema == next(iter(schemas.values())) for schema in schemas.values()):
        return
    try:
        common = join_parts([pl.DataFrame(schema=schema) for schema in schemas.values()])
        for part, schema in schemas.items():
            if schema != common.schema:
                write_frame(part, join_parts([common, read_frame(part)]))
    except pl.exceptions.PolarsError as error:
        message = f"the parts in `{folder}` cannot be given one form: {error}"
        raise RunError("E502", message, hint="let the scorer give values of one type") from error


def _read_schema(path: Path) -> Mapping[str, pl.DataType]:
    try:
        return pl.read_parquet_schema(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise RunError("E503", f"cannot read `{path}`: {error}", hint="the run folder is damaged") from error


def read_frames(folder: Path) -> pl.DataFrame:
    """Return the parts of a table in their order, as one frame; an empty frame when there are none."""
    parts = [read_frame(part) for part in sorted(folder.glob("part-*.parquet"))]
    try:
        return join_parts(parts)
    except pl.exceptions.PolarsError as error:
        raise RunError(
            "E503", f"cannot read the parts in `{folder}`: {error}", hint="the run folder is damaged"
        ) from error


def read_frame(path: Path) -> pl.DataFrame:
    """Return a Parquet file of a run folder; E503 when it is missing or damaged."""
    try:
        return pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise RunError("E503", f"cannot read `{path}`: {error}", hint="the run folder is damaged") from error
