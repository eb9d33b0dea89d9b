"""The fields of task and dataset files, and the fields that all files share.

A value with a model of its own is marked as a `part`: the loader validates part by part, so that a
mistake in one scorer hides no mistake in the next; the JSON Schema puts the parts together again.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from answerkey.spec.nodes import Json
from answerkey.spec.validation import Fields, Key, Text, Whole
from answerkey.types import Purpose

TaskKind = Literal["chat_completion", "embeddings", "custom"]
Reference = Annotated[
    Text,
    Field(
        pattern=r"^[a-zA-Z0-9_\-$]+$",
        min_length=1,
        max_length=250,
    ),
]
#: Marks an old name in the JSON Schema; pydantic's own `deprecated` would warn about our code.
OLD: Json = {"deprecated": True}
Count = Annotated[Whole, Field(ge=1)]
Column = Annotated[Text, Field(min_length=1)]


def part(name: str) -> Any:  # noqa: ANN401 - what pydantic's Field returns
    """Return the mark of a value that has models of its own."""
    return Field(json_schema_extra={"part": name})


class Described(Fields):
    """The optional fields of everything that has a name."""

    key: Key
    display_name: Text | None = None
    description: Text | None = None
    long_description: Text | None = None
    tags: tuple[Text, ...] = ()


class NamedByFile(Described):
    """A definition whose key is the name of its file unless it states one."""

    model_config = ConfigDict(json_schema_extra=lambda schema: schema["required"].remove("key"))


class DatasetChoice(Fields):
    """Which dataset a task reads."""

    key: Key
    source: Literal["dataset"] = "dataset"
    fast_subset_size: Any = Field(default=None, json_schema_extra=OLD)


class DesignFields(Fields):
    """How samples belong together, for the intervals and breakdowns of metrics."""

    group_by: Column | list[Column] | None = None
    cluster_by: Column | None = None


ScorerPart = Annotated[Any, part("scorer")]
VariantPart = Annotated[Any, part("variant")]


class Definition(DesignFields):
    """The prompt of a task, and how replies are scored."""

    type: Literal["benchmark_task", "declarative_task"] = "benchmark_task"
    dataset: DatasetChoice | None = None
    solver: Annotated[Any, part("solver")] | None = None
    scorers: Annotated[list[ScorerPart], Field(min_length=1)]
    trials: Annotated[Any, part("trials")] | None = None
    choice_order: Annotated[Any, part("choice_order")] | None = None
    variants: Annotated[list[VariantPart], Field(min_length=1)] | None = None
    actions: list[Annotated[Any, part("action")]] | None = None
    evaluated_entity_type: Literal["model", "dataset"] | None = Field(
        default=None, json_schema_extra=OLD
    )


class TaskFields(NamedByFile):
    """A task file."""

    tasks: tuple[TaskKind, ...] = ()
    config_spec: list[Annotated[Any, part("parameter")]] | None = None
    definition: Annotated[Any, part("definition")]


class ScorerCommon(Fields):
    """The fields that every scorer has in addition to its own."""

    key: Key | None = None
    purpose: Purpose = "score"
    display_name: Text | None = None
    metrics: list[Annotated[Any, part("metric")]] | None = None


class MetricCommon(DesignFields):
    """The fields that every metric has in addition to its own."""

    key: Key | None = None


class DatasetFields(NamedByFile):
    """A dataset file."""

    source: Annotated[Any, part("source")] | None = None
    file_path: Text | None = Field(default=None, json_schema_extra=OLD)
