"""A dataset cut into shards: where to read some consecutive samples, to be loaded where the work is done."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from answerkey.datasets.dataset import Dataset
from answerkey.datasets.recorded import Recorded
from answerkey.datasets.rows import Rows


@dataclass(frozen=True)
class Shard:
    """Some consecutive samples: the how manieth shard, where it starts in the dataset, and where to read it.

    `recorded` are their completions, where there are any; `failed` the positions of rows that are wrong.
    Of rows at the positions `withheld` nothing but the ids is used, for `reason`: they end the process that
    works on them, unless it says otherwise. What comes of a shard that `is_trial` is not kept.
    """

    index: int
    offset: int
    samples: Rows
    recorded: Recorded | None = None
    failed: tuple[int, ...] = ()
    withheld: tuple[int, ...] = ()
    is_trial: bool = False
    reason: str = "ENDED_WORKER"

    @property
    def left(self) -> list[int]:
        """The positions of the rows that are worked on."""
        return sorted(set(range(len(self.samples))).difference(self.withheld))

    def cut(self, start: int, stop: int) -> Shard:
        """Return a part of the shard, in which nothing is withheld."""
        return replace(
            self,
            offset=self.offset + start,
            samples=self.samples.slice(start, stop - start),
            recorded=None if self.recorded is None else self.recorded.slice(start, stop - start),
            failed=tuple(row - start for row in self.failed if start <= row < stop),
            withheld=(),
        )

    def cut_around(self) -> list[Shard]:
        """Return the stretches between the rows that are withheld; one without rows where there is none."""
        ends = [-1, *self.withheld, len(self.samples)]
        spans = [(before + 1, after) for before, after in pairwise(ends) if after > before + 1]
        return [self.cut(*span) for span in spans or [(0, 0)]]

    def halve(self) -> tuple[Shard, Shard] | None:
        """Return both halves, for trial only; None when there is a single row."""
        size = len(self.samples)
        if size < 2:  # noqa: PLR2004 - two halves
            return None
        trial = replace(self, is_trial=True)
        return trial.cut(0, size // 2), trial.cut(size // 2, size)

    def leave_out(self, reason: str) -> Shard:
        """Return the shard with all its rows left out of the work."""
        return replace(self, withheld=tuple(range(len(self.samples))), reason=reason)

    def withhold(self, rows: Sequence[Shard]) -> Shard:
        """Return the shard with these rows, shards of one row each, left out of the work."""
        found = {one.offset - self.offset for one in rows}
        return replace(self, withheld=tuple(sorted(found.union(self.withheld))))

    @property
    def places(self) -> range:
        """Where its samples stand in the dataset."""
        return range(self.offset, self.offset + len(self.samples))


def cut_shards(
    dataset: Dataset, rows: int, recorded: Recorded | None = None, failed: Sequence[int] = ()
) -> Iterator[Shard]:
    """Yield the dataset in shards of at most `rows` samples, in order; nothing is loaded yet.

    `failed` are the positions of rows that are wrong, in order.
    """
    for index, span in enumerate(dataset.cut(rows)):
        offset = span.start
        samples = dataset.rows.slice(offset, len(span))
        own = failed[bisect_left(failed, offset) : bisect_left(failed, offset + len(samples))]
        part = None if recorded is None else recorded.slice(offset, len(samples))
        yield Shard(index, offset, samples, part, tuple(row - offset for row in own))
