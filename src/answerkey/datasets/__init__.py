"""Files become Samples with stable ids and a fingerprint; recorded completions become Completions."""

from answerkey.datasets.cells import ColumnKind
from answerkey.datasets.dataset import Dataset, open_dataset
from answerkey.datasets.matching import match_completions
from answerkey.datasets.recorded import BlankCompletions, Recorded, find_own_completions
from answerkey.datasets.recorded_trials import refuse_single
from answerkey.datasets.rows import HeldRows, Rows, iterate_blocks
from answerkey.datasets.selection import Selection
from answerkey.datasets.shards import Shard, cut_shards
from answerkey.datasets.sources import SOURCES, InlineSource, LocalSource, Source
from answerkey.datasets.tables import Table, load_rows, load_table, read_table, samples_from

__all__ = [
    "SOURCES",
    "BlankCompletions",
    "ColumnKind",
    "Dataset",
    "HeldRows",
    "InlineSource",
    "LocalSource",
    "Recorded",
    "Rows",
    "Selection",
    "Shard",
    "Source",
    "Table",
    "cut_shards",
    "find_own_completions",
    "iterate_blocks",
    "load_rows",
    "load_table",
    "match_completions",
    "open_dataset",
    "read_table",
    "refuse_single",
    "samples_from",
]
