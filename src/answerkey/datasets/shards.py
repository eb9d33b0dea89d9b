"""A dataset cut into shards: where to read some consecutive samples, to be loaded where the work is done."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from answerkey.datasets.dataset import Dataset
from answerkey.datasets.recorded import Recorded
from answerkey.datasets.rows import Rows


@dataclass(frozen=True)
class Shard:
    """Some consecutive samples: the how manieth shard, where it starts in the dataset, and where to read it.

    `recorded` are their completions, where there are any; `failed` the positions of rows that are wrong.
    """

    index: int
    offset: int
    samples: Rows
    recorded: Recorded | None = None
    failed: tuple[int, ...] = ()

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
