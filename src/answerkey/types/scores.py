"""The verdicts of one scorer: the table, and one verdict of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Self

import polars as pl

#: Parquet has no struct without fields; a scorer without metadata stores this one, always null.
EMPTY_STRUCT_FIELD = "_"
#: Where a scorer that runs code keeps the traceback of a row on which it failed; part of the metadata.
TRACEBACK_FIELD = "snippet_traceback"


class ScoreStatus(StrEnum):
    """SCORED has values; FAILED is the dataset's or the scorer's fault; ERROR means the call failed."""

    SCORED = "SCORED"
    FAILED = "FAILED"
    ERROR = "ERROR"


class Validity(StrEnum):
    """Whether the completion unambiguously names one of the choices."""

    VALID = "VALID"
    INVALID = "INVALID"


@dataclass(frozen=True)
class Score:
    """The verdict of one scorer on one sample."""

    status: ScoreStatus
    reason: str | None = None
    values: Mapping[str, object] = field(default_factory=dict)
    metadata: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Scores:
    """The verdicts of one scorer, one row per sample in the order of the samples.

    Columns of `frame`: `status` and `reason` (text), `values` and `metadata` (structs with one field per
    name; all null unless SCORED), `excluded_by` (key of the action rule that keeps the row out of the
    metrics, or null). Fields in `encoded` hold JSON text because their values have no common type.
    """

    frame: pl.DataFrame
    encoded: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return self.frame.height

    @property
    def value_names(self) -> list[str]:
        """The names of the values."""
        return _field_names(self.frame.schema["values"])

    @property
    def metadata_names(self) -> list[str]:
        """The names of the metadata."""
        return _field_names(self.frame.schema["metadata"])

    @property
    def names(self) -> list[str]:
        """The names of values and metadata."""
        return [*self.value_names, *self.metadata_names]

    def column(self, name: str) -> pl.Series | None:
        """Return a value by name, else a metadata field, else None; rows without a score are null."""
        if name == EMPTY_STRUCT_FIELD:
            return None
        return next((fields[name] for fields in self._fields if name in fields.columns), None)

    @cached_property
    def _fields(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        return self.frame["values"].struct.unnest(), self.frame["metadata"].struct.unnest()

    def counted(self) -> pl.Series:
        """Return which rows take part in metrics: SCORED and not excluded by an action."""
        return self._counted

    @cached_property
    def _counted(self) -> pl.Series:
        is_scored = (self.frame["status"] == ScoreStatus.SCORED.value).alias("counted")
        excluded = self.frame["excluded_by"]
        return is_scored & excluded.is_null() if excluded.null_count() < len(excluded) else is_scored

    @cached_property
    def are_all_counted(self) -> bool:
        """Whether every row takes part in metrics."""
        return bool(self._counted.all())

    def count(self, status: ScoreStatus) -> int:
        """Return how many verdicts have this status."""
        return int((self.frame["status"] == status.value).sum())

    def spread(self, positions: Sequence[int], length: int, reason: str) -> Self:
        """Return a table of `length` rows with these at `positions`; the others are FAILED."""
        own = self.frame.with_columns(pl.Series("position", positions, dtype=pl.Int64))
        rows = pl.DataFrame({"position": pl.int_range(length, eager=True)})
        frame = rows.join(own, on="position", how="left", maintain_order="left").drop("position")
        missing = pl.col("status").is_null()
        frame = frame.with_columns(
            pl.when(missing).then(pl.lit(reason)).otherwise("reason").alias("reason"),
            pl.col("status").fill_null(ScoreStatus.FAILED.value),
            # A struct that is null becomes one of nulls, as everywhere else.
            *(frame[name].struct.unnest().to_struct(name) for name in ("values", "metadata")),
        )
        return type(self)(frame, self.encoded)

    def fail(self, positions: Sequence[int], reason: str) -> Self:
        """Return the table with these rows FAILED; a row that has no score anyway keeps its own reason."""
        if not positions:
            return self
        rows = pl.zeros(len(self), pl.Int8, eager=True).scatter(list(positions), 1) == 1
        hit = rows & (self.frame["status"] == ScoreStatus.SCORED.value)
        frame = self.frame.with_columns(
            pl.when(hit).then(pl.lit(ScoreStatus.FAILED.value)).otherwise("status").alias("status"),
            pl.when(hit).then(pl.lit(reason)).otherwise("reason").alias("reason"),
            *(_blank_fields(self.frame, name, hit) for name in ("values", "metadata")),
        )
        return type(self)(frame, self.encoded)

    def rows(self) -> Iterator[Score]:
        """Yield the verdicts one by one."""
        for row in self.frame.iter_rows(named=True):
            yield Score(
                ScoreStatus(row["status"]),
                row["reason"],
                self._decode(row["values"]),
                self._decode(row["metadata"]),
            )

    def _decode(self, group: Mapping[str, object] | None) -> dict[str, object]:
        return {
            name: json.loads(str(value)) if name in self.encoded and value is not None else value
            for name, value in (group or {}).items()
            if name != EMPTY_STRUCT_FIELD
        }


def _blank_fields(frame: pl.DataFrame, group: str, hit: pl.Series) -> pl.Series:
    fields = frame[group].struct.unnest()
    return fields.select(pl.when(~hit).then(pl.col(name)).alias(name) for name in fields.columns).to_struct(
        group
    )


def _field_names(dtype: pl.DataType) -> list[str]:
    fields = dtype.fields if isinstance(dtype, pl.Struct) else []
    return [one.name for one in fields if one.name != EMPTY_STRUCT_FIELD]
