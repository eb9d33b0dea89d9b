"""Templates, `<< config.x >>` once at load and `{{ sample.x }}` per row, and filters of rows."""

from answerkey.templates.config import ConfigValue, embed_config, find_config_names, find_whole
from answerkey.templates.rendering import TemplateStopped
from answerkey.templates.row_filter import ACTION_NAMES, DATASET_NAMES, FilterOp, RowFilter
from answerkey.templates.template import Template, UnresolvedConfig
from answerkey.templates.values import JsonText, RowError

__all__ = [
    "ACTION_NAMES",
    "DATASET_NAMES",
    "ConfigValue",
    "FilterOp",
    "JsonText",
    "RowError",
    "RowFilter",
    "Template",
    "TemplateStopped",
    "UnresolvedConfig",
    "embed_config",
    "find_config_names",
    "find_whole",
]
