"""Files become Samples with stable ids and a fingerprint; recorded completions become Completions."""

from answerkey.datasets.cells import ColumnKind
from answerkey.datasets.dataset import Dataset, open_dataset
from answerkey.datasets.folder import FolderSource, list_files, matches
from answerkey.datasets.hub import HuggingFaceSource
from answerkey.datasets.joining import FileFields
from answerkey.datasets.matching import match_completions
from answerkey.datasets.recorded import BlankCompletions, Recorded, find_own_completions
from answerkey.datasets.recorded_trials import refuse_single
from answerkey.datasets.rows import HeldRows, Rows, iterate_blocks
from answerkey.datasets.selection import Selection
from answerkey.datasets.shards import Shard, cut_shards
from answerkey.datasets.sources import SOURCES, InlineSource, LocalSource, Source, pin_source
from answerkey.datasets.storage import is_stored, name_lasting, require_address
from answerkey.datasets.stored_files import digest_file
from answerkey.datasets.tables import Layout, Table, load_rows, load_table, read_table, samples_from
from answerkey.datasets.url import DEFAULT_MEGABYTES, MOST_MEGABYTES, UrlSource

__all__ = [
    "DEFAULT_MEGABYTES",
    "MOST_MEGABYTES",
    "SOURCES",
    "BlankCompletions",
    "ColumnKind",
    "Dataset",
    "FileFields",
    "FolderSource",
    "HeldRows",
    "HuggingFaceSource",
    "InlineSource",
    "Layout",
    "LocalSource",
    "Recorded",
    "Rows",
    "Selection",
    "Shard",
    "Source",
    "Table",
    "UrlSource",
    "cut_shards",
    "digest_file",
    "find_own_completions",
    "is_stored",
    "iterate_blocks",
    "list_files",
    "load_rows",
    "load_table",
    "match_completions",
    "matches",
    "name_lasting",
    "open_dataset",
    "pin_source",
    "read_table",
    "refuse_single",
    "require_address",
    "samples_from",
]
