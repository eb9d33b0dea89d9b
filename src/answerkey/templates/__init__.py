"""The two template levels: `<< config.x >>` once at load, `{{ sample.x }}` per row; and row filters."""

from answerkey.templates.config import ConfigValue, embed_config
from answerkey.templates.placeholders import find_config_names, find_whole
from answerkey.templates.row_filter import ACTION_NAMES, DATASET_NAMES, FilterOp, RowFilter
from answerkey.templates.template import Template, UnresolvedConfig
from answerkey.templates.trouble import RowTrouble

__all__ = [
    "ACTION_NAMES",
    "DATASET_NAMES",
    "ConfigValue",
    "FilterOp",
    "RowFilter",
    "RowTrouble",
    "Template",
    "UnresolvedConfig",
    "embed_config",
    "find_config_names",
    "find_whole",
]
