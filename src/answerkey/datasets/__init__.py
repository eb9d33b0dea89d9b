"""Files become Samples with stable ids and a fingerprint; recorded completions become Completions."""

from answerkey.datasets.cells import ColumnKind
from answerkey.datasets.dataset import Dataset, open_dataset
from answerkey.datasets.recorded import completions_within, load_completions
from answerkey.datasets.recorded_trials import refuse_single
from answerkey.datasets.selection import Selection
from answerkey.datasets.sources import SOURCES, InlineSource, LocalSource, Source
from answerkey.datasets.tables import Table, load_rows, load_table, read_table, samples_from

__all__ = [
    "SOURCES",
    "ColumnKind",
    "Dataset",
    "InlineSource",
    "LocalSource",
    "Selection",
    "Source",
    "Table",
    "completions_within",
    "load_completions",
    "load_rows",
    "load_table",
    "open_dataset",
    "read_table",
    "refuse_single",
    "samples_from",
]
