"""The tables that travel through the house, and their rows; and how kinds are found by name.

Plural is a table, singular a row. Tables are Polars frames with a fixed meaning; rows are plain values.
"""

from answerkey.types.completions import (
    COMPLETION_SCHEMA,
    THEIR_SCHEMA,
    Completion,
    Completions,
    CompletionStatus,
)
from answerkey.types.gates import Gate, GateCheck, GateStatus, find_worst_status
from answerkey.types.metric_values import Groups, GroupValue, MetricValue, Purpose
from answerkey.types.notices import Notice
from answerkey.types.questions import Known, Question
from answerkey.types.registry import Registry
from answerkey.types.row import Row
from answerkey.types.samples import ORDER_SCHEMA, PRIOR_SCHEMA, WRITTEN, Sample, Samples
from answerkey.types.scores import (
    EMPTY_STRUCT_FIELD,
    TRACEBACK_FIELD,
    Score,
    Scores,
    ScoreStatus,
    Validity,
)
from answerkey.types.trace import LATER_NAMES

__all__ = [
    "COMPLETION_SCHEMA",
    "EMPTY_STRUCT_FIELD",
    "LATER_NAMES",
    "ORDER_SCHEMA",
    "PRIOR_SCHEMA",
    "THEIR_SCHEMA",
    "TRACEBACK_FIELD",
    "WRITTEN",
    "Completion",
    "CompletionStatus",
    "Completions",
    "Gate",
    "GateCheck",
    "GateStatus",
    "GroupValue",
    "Groups",
    "Known",
    "MetricValue",
    "Notice",
    "Purpose",
    "Question",
    "Registry",
    "Row",
    "Sample",
    "Samples",
    "Score",
    "ScoreStatus",
    "Scores",
    "Validity",
    "find_worst_status",
]
