"""Files that are either there whole or not there at all."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from answerkey.errors import RunError

Part = TypeVar("Part")
#: Of one JSON file of a run; and how many lists and mappings, and how many entries, it may hold.
MAX_JSON_BYTES = 32_000_000
MAX_CONTAINERS = 500_000
MAX_ENTRIES = 3_000_000
#: Half a shard's time goes into its file; statistics, which nothing here reads, are a third of that.
PARQUET: Any = {"compression_level": 1, "statistics": False}
#: Rows that a table may have whatever its size, and for each byte of it.
FREE_ROWS = 10_000
ROWS_PER_BYTE = 20


def write_whole(
    path: Path, write: Callable[[Path], object], *, is_draft: bool = False, is_shared: bool = False
) -> None:
    """Write a file under another name, flush it to disk unless it is a draft, then give it its name.

    One that is shared may be written by two machines at a time, when one of them was thought to be gone.
    """
    own = f".{secrets.token_hex(4)}" if is_shared else ""
    draft = path.with_name(f".{path.name}{own}.draft")
    try:
        write(draft)
        if not is_draft:
            _flush(draft)
        draft.replace(path)
        if not is_draft:
            _flush(path.parent)
    except BaseException as error:
        with suppress(OSError):  # where nothing can be written, nothing can be removed either
            draft.unlink(missing_ok=True)
        if not isinstance(error, OSError | pl.exceptions.PolarsError):
            raise
        another = "set `TMPDIR` to another" if is_draft else "choose another with `--out`"
        hint = f"check the free space and the rights of the folder, or {another}"
        why = getattr(error, "strerror", None) or error
        raise RunError("E502", f"cannot write `{path}`: {why}", hint=hint) from error


def write_output(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file that a user names: the whole of it or nothing; a pipe or a device as it goes along."""
    if path.exists() and not path.is_file():
        write(path)
    else:
        write_whole(path.resolve() if path.is_symlink() else path, write)


def remove_drafts(folder: Path) -> None:
    """Remove what processes that were killed left half written."""
    for draft in folder.glob(".*.draft"):
        draft.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    """Wait until a file, or the list of files of a folder, is on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_json(path: Path, content: object) -> None:
    """Write JSON that any reader accepts: UTF-8, no NaN."""
    raw = encode_json(content)
    write_whole(path, lambda draft: draft.write_bytes(raw))


def encode_json(content: object) -> bytes:
    """Return JSON that any reader accepts: UTF-8, no NaN."""
    text = json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    return text.encode("utf-8", errors="backslashreplace")


def write_frame(path: Path, frame: pl.DataFrame, *, is_draft: bool = False, is_shared: bool = False) -> None:
    """Write a Parquet file; see `write_whole`."""

    def write(draft: Path) -> None:
        frame.write_parquet(draft, **PARQUET)

    write_whole(path, write, is_draft=is_draft, is_shared=is_shared)


def write_frames(path: Path, frames: Iterable[pl.DataFrame]) -> None:
    """Write frames, which have the same columns, one after the other into one Parquet file.

    One frame is in memory at a time. They lie beside the file until all are there, and it has its name then.
    """
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        drafts = [_write_draft(Path(folder) / f"{number:06d}", one) for number, one in enumerate(frames)]
        whole = Path(folder) / "whole"
        pl.scan_parquet(drafts, glob=False).sink_parquet(whole)
        whole.replace(path)


def _write_draft(path: Path, frame: pl.DataFrame) -> Path:
    frame.write_parquet(path, compression="lz4", statistics=False)
    return path


def read_json(path: Path, digest: str | None = None) -> dict[str, object]:
    """Return a JSON object from a run folder; E503 when the file is missing, damaged or none of ours.

    With `digest`, the SHA-256 that it had, also when it has another.

    The folder may come from a stranger: nothing is read that is no plain file, or takes far more memory than
    any run needs.
    """
    try:
        require_plain(path)
        with path.open("rb") as stream:
            raw = stream.read(MAX_JSON_BYTES + 1)
    except OSError as error:
        raise _describe_unreadable(path, error) from error
    return parse_json(path, raw, digest)


def parse_json(name: object, raw: bytes, digest: str | None = None) -> dict[str, Any]:
    """Return a JSON object of a run from its bytes; E503 when it is damaged or none of ours."""
    if digest is not None:
        require_digest(name, sha256(raw).hexdigest(), digest)
    try:
        content = json.loads(_decode_bounded(raw), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise _describe_unreadable(name, error) from error
    if not isinstance(content, dict):
        raise RunError("E503", f"`{name}` does not hold a JSON object", hint="the run folder is damaged")
    return content


def _describe_unreadable(name: object, error: Exception) -> RunError:
    return RunError("E503", f"cannot read `{name}`: {error}", hint="the run folder is damaged or incomplete")


def _decode_bounded(raw: bytes) -> str:
    if len(raw) > MAX_JSON_BYTES:
        raise ValueError(f"it is larger than {MAX_JSON_BYTES // 1_000_000} MB")
    if raw.count(b"[") + raw.count(b"{") > MAX_CONTAINERS or raw.count(b",") > MAX_ENTRIES:
        raise ValueError("it holds more values than any run writes")
    return raw.decode("utf-8")


def require_plain(path: Path) -> None:
    """Refuse a link, a pipe or a device: it is not what a run writes, and may never end."""
    if path.exists() and (path.is_symlink() or not path.is_file()):
        raise RunError("E503", f"`{path}` is not a plain file", hint="the run folder is none of ours")


def _refuse_constant(word: str) -> object:
    raise ValueError(f"{word} is not JSON")


def join_parts(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return parts as one frame; a field that some parts lack is null there, differing types become text."""
    return pl.concat(parts, how="vertical_relaxed") if parts else pl.DataFrame()


def unify_parts(folder: Path) -> None:
    """Give all parts of a table the same schema, so that any reader can read them as one.

    They differ when a scorer of the user's own gives numbers for some shards and texts for others, or a name
    for some only. Nothing is written when they do not; a part is replaced whole.
    """
    schemas = {part: _read_schema(part) for part in list_parts(folder)}
    unify(schemas, read_frame, write_frame, folder)


def unify(
    schemas: Mapping[Part, Mapping[str, pl.DataType]],
    read: Callable[[Part], pl.DataFrame],
    write: Callable[[Part, pl.DataFrame], None],
    folder: object,
) -> None:
    """Give parts, of which the schemas are known, one schema; see `unify_parts`."""
    if all(schema == next(iter(schemas.values())) for schema in schemas.values()):
        return
    try:
        common = join_parts([pl.DataFrame(schema=schema) for schema in schemas.values()])
        for part, schema in schemas.items():
            if schema != common.schema:
                write(part, join_parts([common, read(part)]))
    except pl.exceptions.PolarsError as error:
        message = f"the parts in `{folder}` cannot be given one form: {error}"
        raise RunError("E502", message, hint="let the scorer give values of one type") from error


def list_parts(folder: Path) -> list[Path]:
    """Return the parts of a table in their order."""
    return sorted(folder.glob("part-*.parquet"))


def _read_schema(path: Path) -> Mapping[str, pl.DataType]:
    try:
        return pl.scan_parquet(path, glob=False).collect_schema()
    except (OSError, pl.exceptions.PolarsError) as error:
        raise describe_damage(path, error) from error


def read_frame(path: Path) -> pl.DataFrame:
    """Return a Parquet file of a run folder; E503 when it is missing or damaged."""
    count_rows(path)
    try:
        return pl.read_parquet(path, glob=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise describe_damage(path, error) from error


def count_rows(path: Path) -> int:
    """Return how many rows a Parquet file of a run folder says it has; E503 when that cannot be.

    Every row of ours has an id of its own, which takes some of a byte in any compression; a file of a
    stranger may hold a billion rows in a thousand bytes.
    """
    require_plain(path)
    try:
        rows = int(pl.scan_parquet(path, glob=False).select(pl.len()).collect().item())
        require_likely(rows, path.stat().st_size)
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        raise describe_damage(path, error) from error
    return rows


def digest_file(path: Path) -> str:
    """Return the SHA-256 of a file of a run folder, which is read block by block."""
    try:
        with path.open("rb") as stream:
            return file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise describe_damage(path, error) from error


def require_digest(name: object, found: str, wanted: str) -> None:
    """Raise E503 when a file has another SHA-256 than `run.json` says."""
    if found != wanted:
        raise refuse_changed(name, f"its SHA-256 is {found[:12]}…, `run.json` says {wanted[:12]}…")


def refuse_changed(name: object, why: str) -> RunError:
    """Return E503 for a file that is not as the run left it."""
    hint = "copy the run folder again from where it is whole, or run again"
    return RunError("E503", f"`{name}` has changed since the run ended: {why}", hint=hint)


def require_likely(rows: int, size: int) -> None:
    """Raise ValueError for more rows than a file of this size can have."""
    if rows > FREE_ROWS + ROWS_PER_BYTE * size:
        raise ValueError(f"{rows:,} rows cannot be in so small a file")


def describe_damage(path: Path, error: Exception) -> RunError:
    """Return E503 for a file, or the parts in a folder, that cannot be read."""
    return RunError("E503", f"cannot read `{path}`: {error}", hint="the run folder is damaged")
