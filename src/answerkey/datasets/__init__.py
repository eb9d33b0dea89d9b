"""Files become Samples with stable ids and a fingerprint; recorded completions become Completions."""

from answerkey.datasets.columns import ColumnKind
from answerkey.datasets.dataset import Dataset, Recorded, Selection, Shard, cut_shards, open_dataset
from answerkey.datasets.downloads import digest_file
from answerkey.datasets.hub import HuggingFaceSource
from answerkey.datasets.recorded import (
    BlankCompletions,
    find_own_completions,
    match_completions,
    refuse_single,
)
from answerkey.datasets.rows import HeldRows, Rows, iterate_blocks
from answerkey.datasets.sources import (
    DEFAULT_MEGABYTES,
    MOST_MEGABYTES,
    SOURCES,
    FolderSource,
    InlineSource,
    LocalSource,
    Source,
    UrlSource,
    list_files,
    pin_source,
)
from answerkey.datasets.storage import is_stored, name_lasting, require_address
from answerkey.datasets.tables import FileFields, Table, load_rows, load_table, matches

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
    "refuse_single",
    "require_address",
]
