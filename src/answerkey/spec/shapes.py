"""The fields of task, run, dataset and model files, both eras.

What is held against a model of its own is a `…Part` here: the loader validates part by part, so that a
mistake in one scorer hides nothing of the next; the JSON Schema puts the parts together again.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from answerkey.metrics import AggregatorName
from answerkey.models import ApiName
from answerkey.spec.fields import Fields, Hint, Number, Text, Whole
from answerkey.spec.parameters import Key
from answerkey.spec.secret_values import SecretText
from answerkey.types import Purpose

#: A reference to a model or an adapter may also contain `$`; a built-in model is named with its parameters.
MODEL_REFERENCE = r"^[a-zA-Z0-9_\-$]+([/:].+)?$"
TaskKind = Literal["chat_completion", "embeddings", "custom"]
CachePolicy = Literal["reuse", "update", "no-cache"]
Subsampling = Literal["head", "random"]
Reference = Annotated[Text, Field(pattern=r"^[a-zA-Z0-9_\-$]+$", min_length=1, max_length=250)]
ModelReference = Annotated[Text, Field(pattern=MODEL_REFERENCE, max_length=1000)]
#: Marks an old name in the JSON Schema; pydantic's own `deprecated` would warn of our code, not of the file.
OLD: dict[str, Any] = {"deprecated": True}
Count = Annotated[Whole, Field(ge=1)]
Column = Annotated[Text, Field(min_length=1)]


def _part(name: str) -> Hint:
    return Field(json_schema_extra={"part": name})


ScorerPart = Annotated[Any, _part("scorer")]
MetricPart = Annotated[Any, _part("metric")]
SolverPart = Annotated[Any, _part("solver")]
SourcePart = Annotated[Any, _part("source")]
ParameterPart = Annotated[Any, _part("parameter")]
FilterPart = Annotated[Any, _part("filter")]
ActionPart = Annotated[Any, _part("action")]
DefinitionPart = Annotated[Any, _part("definition")]
ConnectionPart = Annotated[Any, _part("connection")]
SpecificationPart = Annotated[Any, _part("specification")]
AdapterPart = Annotated[Any, _part("adapter")]
ModelPart = Annotated[Any, _part("model")]
DatasetPart = Annotated[Any, _part("dataset")]
TaskPart = Annotated[Any, _part("task")]
EvaluationPart = Annotated[Any, _part("evaluation")]
TrialsPart = Annotated[Any, _part("trials")]
VariantPart = Annotated[Any, _part("variant")]
ChoiceOrderPart = Annotated[Any, _part("choice_order")]
RunConfigPart = Annotated[Any, _part("run_config")]
PolicyPart = Annotated[Any, _part("policy")]
RulePart = Annotated[Any, _part("rule")]


class Described(Fields):
    """What every named thing has."""

    key: Key
    display_name: Text
    description: Text | None = None
    long_description: Text | None = None
    tags: tuple[Text, ...] = ()


class DatasetChoice(Fields):
    """Which dataset a task reads."""

    key: Key
    source: Literal["dataset"] = "dataset"
    fast_subset_size: Any = Field(default=None, json_schema_extra=OLD)


class ActionFields(Fields):
    """What happens to samples after scoring."""

    key: Key
    action: Literal["exclude_from_metrics"] = "exclude_from_metrics"
    filter: FilterPart


class AggregatorFields(Fields):
    """How the trials' values of one score become one number."""

    function: AggregatorName
    k: Count | None = None
    score_name: Text | None = None


class ScoreAggregatorFields(Fields):
    """Which score is aggregated, and how; the aggregator may name the score too."""

    score_name: Text | None = None
    aggregator: AggregatorFields


class TrialsConfigFields(Fields):
    """How often each sample is asked."""

    num_trials: Annotated[Whole, Field(ge=2)]


class TrialsFields(TrialsConfigFields):
    """How often each sample is asked, and what its trials come to."""

    score_aggregators: list[ScoreAggregatorFields] | None = None


class RepeatabilityFields(Fields):
    """How often a task specification is run."""

    num_runs: Annotated[Whole, Field(ge=2)]


class DesignFields(Fields):
    """How samples belong together, for the intervals and breakdowns of metrics."""

    group_by: Column | list[Column] | None = None
    cluster_by: Column | None = None
    cluster_correction: bool | None = None
    bootstrap_seed: Whole | None = None


class Definition(DesignFields):
    """What a task asks and how replies are scored."""

    type: Literal["benchmark_task", "declarative_task"] = "benchmark_task"
    dataset: DatasetChoice | None = None
    solver: SolverPart | None = None
    scorers: Annotated[list[ScorerPart], Field(min_length=1)]
    trials: TrialsPart | None = None
    choice_order: ChoiceOrderPart | None = None
    variants: Annotated[list[VariantPart], Field(min_length=1)] | None = None
    actions: list[ActionPart] | None = None
    evaluated_entity_type: Literal["model", "dataset"] | None = Field(default=None, json_schema_extra=OLD)


class TaskFields(Described):
    """A task file."""

    description: Text
    tasks: tuple[TaskKind, ...] = ()
    config_spec: list[ParameterPart] | None = None
    definition: DefinitionPart


class ScorerCommon(Fields):
    """What every scorer has beside its own fields."""

    key: Key | None = None
    purpose: Purpose = "score"
    display_name: Text | None = None
    metrics: list[MetricPart] | None = None


class MetricCommon(DesignFields):
    """What every metric has beside its own fields."""

    key: Key | None = None


class DatasetFields(Described):
    """A dataset file."""

    source: SourcePart | None = None
    file_path: Text | None = Field(default=None, json_schema_extra=OLD)


class Generation(Fields):
    """How a model is to generate."""

    temperature: Annotated[Number, Field(ge=0)] | None = None
    top_p: Annotated[Number, Field(ge=0, le=1)] | None = None
    max_tokens: Count | None = None
    seed: Whole | None = None
    stop: Text | list[Text] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[Whole, Field(ge=0)] | None = None
    echo: bool | None = None


class Code(Fields):
    """A piece of an adapter."""

    language: Literal["jinja", "python"] = "jinja"
    source_code: Text


class AdapterFields(Fields):
    """A model adapter: how messages become a request, and a reply becomes messages."""

    key: Reference
    display_name: Text | None = None
    description: Text | None = None
    long_description: Text | None = None
    tags: tuple[Text, ...] = ()
    provider: Literal["user"] = "user"
    task: TaskKind | None = None
    process_input: Code
    process_output: Code


class AdapterChoice(Fields):
    """Which adapter a model uses."""

    key: Reference


class ValidationContext(Fields):
    """Which certificates an endpoint may show: those of the system, or of `trusted_ca` (PEM text)."""

    trusted_ca: Text | None = None
    trust_chain_verification: Literal["verify_trust_chain", "accept_untrusted"] | None = None


class TlsContext(Fields):
    """How an endpoint proves who it is."""

    validation_context: ValidationContext | None = None


class CustomConnection(Fields):
    """A model behind a URL."""

    connection_type: Literal["custom_connection"] = "custom_connection"
    url: Text
    adapter: AdapterChoice | None = None
    api: ApiName | None = None
    api_key: SecretText | None = None
    model_key: Text | None = None
    custom_headers: dict[str, SecretText] | None = None
    tls_context: TlsContext | None = None


class ProviderConnection(Fields):
    """A model of a known provider."""

    connection_type: Literal["provider_connection"]
    provider_id: Text
    model_key: Text
    base_url: Text | None = None
    api: ApiName | None = None
    api_key: SecretText | None = None


class PlaceholderConnection(Fields):
    """A model that is only named: no inference."""

    connection_type: Literal["placeholder"]


class CustomInference(Fields):
    """A model that is a Python snippet."""

    connection_type: Literal["custom_inference"]
    snippet: Text | None = None
    run_inference_snippet: Text | None = None
    adapter: AdapterChoice | None = None
    environment: dict[str, SecretText] | None = None
    timeout: Annotated[Number, Field(ge=1)] | None = None


CONNECTIONS: dict[str, type[Fields]] = {
    "custom_connection": CustomConnection,
    "provider_connection": ProviderConnection,
    "placeholder": PlaceholderConnection,
    "custom_inference": CustomInference,
}


class ModelFields(Fields):
    """A model file."""

    key: Reference
    display_name: Text
    description: Text | None = None
    long_description: Text | None = None
    tags: tuple[Text, ...] = ()
    rate_limit: Annotated[Number, Field(gt=0)] | None = None
    tokens_per_minute: Annotated[Number, Field(gt=0)] | None = None
    max_concurrent_requests: Count | None = None
    task: TaskKind = "chat_completion"
    adapter: AdapterChoice | None = None
    config: ConnectionPart
    generation: Generation | None = None


class ProviderModel(Fields):
    """A model named by its provider, or a built-in one."""

    provider: Annotated[Text, Field(alias="$provider", pattern=r"^[^/]+/.+$")]
    display_name: Text | None = None
    base_url: Text | None = None
    api: ApiName | None = None
    generation: Generation | None = None


class SelectionFields(Fields):
    """Which rows of the dataset are used."""

    num_samples: Count | None = None
    subsampling: Subsampling | None = None
    seed: Whole | None = None
    stratify_by: Text | None = None


class SpecificationFields(SelectionFields):
    """One task of an evaluation with its config and model."""

    type: Literal["standard"] = "standard"
    key: Key | None = None
    display_name: Text | None = None
    task_key: Key
    task_config: dict[str, Any] | None = None
    model_key: ModelReference | None = None
    completions: Text | None = None
    generation: Generation | None = None
    trials: TrialsPart | None = None
    repeatability: RepeatabilityFields | None = None


class EvaluationFields(Fields):
    """What a run evaluates."""

    key: Key
    display_name: Text | None = None
    description: Text | None = None
    long_description: Text | None = None
    tags: tuple[Text, ...] = ()
    config_spec: list[ParameterPart] | None = None
    task_specifications: list[SpecificationPart]
    mode: Literal["debug", "full"] | None = Field(default=None, json_schema_extra=OLD)
    num_samples: Count | None = Field(default=None, json_schema_extra=OLD)
    subsampling: Subsampling | None = Field(default=None, json_schema_extra=OLD)
    cache_policy: CachePolicy | None = Field(default=None, json_schema_extra=OLD)


class RunConfigFields(SelectionFields):
    """How a run is carried out."""

    cache_policy: CachePolicy | None = None
    trials_config: TrialsConfigFields | None = None


class RunFields(Fields):
    """A run file."""

    secrets: dict[str, Any] | list[Any] | None = None
    model_adapters: list[AdapterPart] | None = None
    models: list[ModelPart] | None = None
    datasets: list[DatasetPart] | None = None
    tasks: list[TaskPart] | None = None
    evaluation: EvaluationPart | None = None
    config: dict[str, Any] | None = None
    run_config: RunConfigPart | None = None
    policies: list[PolicyPart] | PolicyPart | None = None
