"""The reference says what the code does: every field, output, reason, code, finding and example."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import polars as pl
import pytest
from pydantic import BaseModel
from ruamel.yaml import YAML

from answerkey.cli.options import REPORT_OPTIONS
from answerkey.cli.run import run_command
from answerkey.datasets.sources import SOURCES
from answerkey.errors import CODES, Place
from answerkey.evaluate.options import RunOptions, ScoreOptions
from answerkey.gates.policies import RULE, PolicyFields, RuleFields, build_policies
from answerkey.gates.rules import RULES as GATE_RULES
from answerkey.metrics import METRICS, base
from answerkey.options import DECLARATIONS
from answerkey.reader import EXTRACTORS, PART_REASONS, PARTS, REASONS
from answerkey.runs import NOT_COMPLETE
from answerkey.scorers import SCORERS
from answerkey.scorers.extraction import RULES as EXTRACTION_RULES
from answerkey.scorers.mcqa import PROMPT
from answerkey.scorers.question import FAULTS
from answerkey.solvers import SOLVERS
from answerkey.spec import Options, models, run_file, shapes
from answerkey.spec.config import Config
from answerkey.spec.nodes import ProblemList, from_plain
from answerkey.spec.parameters import PARAMETERS
from answerkey.spec.sources import SOURCE
from answerkey.spec.task import SCORER, SOLVER
from answerkey.spec.validation import DEPRECATIONS, FOREIGN_TYPES, fields_of
from answerkey.templates import FilterOp, RowFilter
from answerkey.types import GateCheck, GateStatus, Scores

ROOT = Path(__file__).parents[2]
SOURCES_OF_CODE = sorted((ROOT / "src" / "answerkey").rglob("*.py"))


def read_page(name: str) -> str:
    """Return a page of the reference."""
    return (ROOT / "docs" / "reference" / f"{name}.md").read_text(encoding="utf-8")


def read_table(page: str, heading: str) -> str:
    """Return the table whose head begins so."""
    return page.partition(heading)[2].partition("\n\n")[0]


def read_section(page: str, heading: str) -> str:
    """Return what stands below a heading of the second level."""
    return page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def list_rows(text: str) -> list[str]:
    """Return what stands in code in the first cells of tables."""
    return re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)


def split_page(page: str, heading: str) -> dict[str, str]:
    """Return title → text of the sections whose headings match a pattern."""
    _, *parts = re.split(rf"^{heading}$", page, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def list_fields(kind: Any) -> list[str]:  # noqa: ANN401  # a dataclass
    """Return the names of the fields that YAML may have."""
    return [field.name for field in dataclasses.fields(kind) if not field.name.startswith("_")]


# Scorers and extraction rules.


@pytest.mark.parametrize("name", list(SCORERS))
def test_every_field_of_a_scorer_has_its_line(name: str) -> None:
    """The table of fields lists exactly the fields of the scorer."""
    section = read_section(read_page(f"scorer-{name}"), "Fields")
    assert list_rows(section) == list_fields(SCORERS[name])


@pytest.mark.parametrize("name", [name for name, scorer in SCORERS.items() if scorer.value_types])
def test_every_output_of_a_scorer_has_its_line(name: str) -> None:
    """The table of outputs lists exactly the values and the metadata of the scorer."""
    scorer = SCORERS[name]
    section = read_section(read_page(f"scorer-{name}"), "Outputs")
    assert list_rows(section) == [*(scorer.value_types or ()), *(scorer.metadata_types or ())]


def test_every_reason_of_a_score_has_its_line() -> None:
    """Reasons stand on the page in the order in which they are tried; so do those of FAILED."""
    page = read_page("scorer-string_equals_mcqa")
    assert list_rows(read_section(page, "The rule `first_character`")) == list(REASONS)
    assert list_rows(read_section(page, "Choices and ground truths")) == list(FAULTS)


PART_NAMES = [part for parts in PARTS.values() for part in parts]


@pytest.mark.parametrize("name", [*EXTRACTION_RULES, *PART_REASONS, *PART_NAMES, "answer_span"])
def test_every_name_of_extraction_is_explained(name: str) -> None:
    """A rule, a part or a reason that the scores name is on the page."""
    assert name in re.findall(r"`(\w+)`", read_page("extraction-rules"))


def test_the_prompt_of_a_fallback_is_documented() -> None:
    """What a model is asked about a completion is documented word by word."""
    assert f"```text\n{PROMPT}\n```" in read_page("extraction-rules")


# Metrics.

METRIC_SECTIONS = split_page(read_page("metrics"), "## `([^`]+)`")
METRIC_EXAMPLES = [
    (YAML(typ="safe").load(source), json.loads(outcome))
    for section in METRIC_SECTIONS.values()
    for source, outcome in re.findall(r"```yaml\n(.*?)```\n```json\n(.*?)```", section, re.DOTALL)
]


def test_every_metric_has_its_section() -> None:
    """The sections are the registered types, in their order."""
    assert list(METRIC_SECTIONS) == list(METRICS)


@pytest.mark.parametrize("name", list(METRICS))
def test_every_field_of_a_metric_has_its_line_and_an_example(name: str) -> None:
    """The table of a section lists exactly the fields of its class, and an example uses it."""
    assert list_rows(METRIC_SECTIONS[name]) == list_fields(METRICS[name])
    assert name in {fields["type"] for fields, _ in METRIC_EXAMPLES}


def test_every_reason_to_leave_a_sample_out_has_its_line() -> None:
    """Whatever can stand in `n_excluded` is explained."""
    table = read_table(read_page("metrics"), "| reason in `n_excluded` |")
    assert list_rows(table) == [
        base.FAILED,
        base.ERROR,
        "excluded:<key>",
        base.NULL,
        base.NOT_FINITE,
        base.NO_WEIGHT,
        base.NEITHER_ANSWER,
    ]


@pytest.mark.parametrize(
    ("fields", "outcome"), METRIC_EXAMPLES, ids=[fields["type"] for fields, _ in METRIC_EXAMPLES]
)
def test_every_example_of_a_metric_is_true(fields: dict[str, Any], outcome: dict[str, Any]) -> None:
    """The metric of an example computes the values that the page shows."""
    options = {name: value for name, value in fields.items() if name != "type"}
    table = pl.DataFrame(outcome["scores"])
    columns = {
        "status": ["SCORED"] * table.height,
        "reason": pl.Series([None] * table.height, dtype=pl.String),
        "values": table.to_struct(),
        "metadata": table.to_struct(),
        "excluded_by": pl.Series([None] * table.height, dtype=pl.String),
    }
    values = METRICS[fields["type"]](**options).compute(Scores(pl.DataFrame(columns)))
    assert {value.name: value.value for value in values} == outcome["values"]


# Files.

MODELS: dict[str, list[type[BaseModel]]] = {
    "task-file": [
        shapes.TaskFields,
        shapes.Definition,
        shapes.DatasetChoice,
        shapes.ActionFields,
        shapes.TrialsFields,
        shapes.MetricCommon,
        fields_of(RowFilter),
        *PARAMETERS.values(),
        *(SCORER.model(kind) for kind in SCORERS),
        *(SOLVER.model(kind) for kind in SOLVERS),
    ],
    "run-file": [
        run_file.RunFields,
        run_file.EvaluationFields,
        run_file.SpecificationFields,
        run_file.RunConfigFields,
        shapes.TrialsFields,
    ],
    "policies": [PolicyFields, RuleFields, *(RULE.model(kind) for kind in GATE_RULES)],
    "dataset-file": [
        shapes.DatasetFields,
        fields_of(RowFilter),
        *(SOURCE.model(kind) for kind in SOURCES),
    ],
    "model-file": [
        models.ModelFields,
        models.ProviderModel,
        models.AdapterFields,
        models.Code,
        *models.CONNECTIONS.values(),
    ],
}
TYPES: dict[str, list[str]] = {
    "task-file": [*PARAMETERS, *SCORERS, *SOLVERS, "trials", "declarative_task"],
    "policies": [*GATE_RULES, *GateStatus],
    "dataset-file": [*SOURCES, *FOREIGN_TYPES["source"], *get_args(FilterOp)],
    "model-file": [*models.CONNECTIONS, "$provider"],
}


def words_of(page: str) -> set[str]:
    """Return the words of a page that stand in code."""
    code = re.findall(r"```.*?```|`[^`\n]+`", read_page(page), re.DOTALL)
    return {word for piece in code for word in re.findall(r"[$A-Za-z_][\w-]*", piece)}


def walk_fields(model: type[BaseModel]) -> Iterator[str]:
    """Yield the YAML names of a model's fields and of the models inside it."""
    for name, entry in model.model_fields.items():
        yield entry.alias or name
        waiting = [entry.annotation]
        while waiting:
            hint = waiting.pop()
            if isinstance(hint, type) and issubclass(hint, BaseModel):
                yield from walk_fields(hint)
            waiting.extend(get_args(hint))


@pytest.mark.parametrize("page", sorted(MODELS))
def test_every_field_of_a_file_is_named(page: str) -> None:
    """A field that the loader reads is named on the page of its file, at any depth."""
    fields = {name for model in MODELS[page] for name in walk_fields(model)}
    assert fields - words_of(page) == set()


@pytest.mark.parametrize("page", sorted(TYPES))
def test_every_type_of_a_file_is_named(page: str) -> None:
    """Types, filter ops, and what is refused by name are on the page of their file."""
    assert set(TYPES[page]) - words_of(page) == set()


def test_every_old_name_is_named() -> None:
    """The pages name every entry of the table of old names."""
    words = set().union(*(words_of(page) for page in MODELS))
    assert {entry.value or entry.name for entry in DEPRECATIONS} - words == set()


def test_every_option_has_its_type() -> None:
    """`RunOptions` names exactly the fields of `Options`; `score` has samples and completions."""
    names = set(list_fields(Options))
    assert names == RunOptions.__optional_keys__
    assert names - ScoreOptions.__optional_keys__ == {"dataset", "completions"}


def test_every_option_is_one_of_the_command() -> None:
    """`run` has each option of `Options` that a command can have, with its help."""
    helps = {getattr(one, "help", None) for one in run_command.params}
    assert {declared.text for declared in DECLARATIONS.values()} - helps == {""}


# Policies.

POLICY_PAGE = read_page("policies")
POLICY_TEXTS = re.findall(r"```yaml\n(policies:.*?)```", POLICY_PAGE, re.DOTALL)
POLICY_SECTIONS = dict(
    re.findall(r"^### `([^`]+)`\n(.*?)(?=^##|\Z)", POLICY_PAGE, re.MULTILINE | re.DOTALL)
)


@pytest.mark.parametrize("text", POLICY_TEXTS)
def test_every_example_of_a_policy_is_read(text: str) -> None:
    """The policies of the page are valid."""
    problems = ProblemList()
    content = from_plain(YAML(typ="safe").load(text)["policies"], Place(), problems)
    policies, _ = build_policies(content, config=Config(), base=Path())
    assert policies
    assert problems.errors == []


def test_every_rule_of_a_policy_has_its_section_and_an_example() -> None:
    """The sections are the kinds, in their order, and every kind is in an example."""
    assert list(POLICY_SECTIONS) == list(GATE_RULES)
    types = re.findall(r"\btype: \"?(\w+)", "\n".join(POLICY_TEXTS))
    assert set(types) == set(GATE_RULES)


@pytest.mark.parametrize("kind", ["threshold", "not_worse"])
def test_every_field_of_a_rule_has_its_line(kind: str) -> None:
    """The table of a section lists exactly the fields of the rule."""
    assert list_rows(POLICY_SECTIONS[kind]) == list_fields(GATE_RULES[kind])


def test_the_run_folder_page_has_every_field_of_a_check() -> None:
    """What `run.json` says of a gate is explained."""
    table = read_page("run-folder").partition("An entry of `checks`")[2].partition("\n\nSecrets")[0]
    rows = "".join(row.partition(" | ")[0] for row in table.splitlines() if row.startswith("| `"))
    assert set(re.findall(r"`(\w+)`", rows)) == set(list_fields(GateCheck))
    assert NOT_COMPLETE == "the run is not complete"


def test_the_options_for_ci_servers_are_two() -> None:
    """`--junit` and `--summary` are on the page."""
    assert len(REPORT_OPTIONS) == 2
    assert "`--junit FILE`" in POLICY_PAGE
    assert "`--summary FILE`" in POLICY_PAGE


# Errors.

ERROR_PARAGRAPHS = split_page(read_page("errors"), r"### (E\d{3})")


def test_the_page_has_every_error_code_once_and_no_other() -> None:
    """The headings of the page are the codes, in their order."""
    assert list(ERROR_PARAGRAPHS) == list(CODES)


@pytest.mark.parametrize("code", CODES)
def test_each_error_has_an_example_and_what_to_do(code: str) -> None:
    """A paragraph says what the code means, gives an example and says what to do."""
    assert "\nExample: " in ERROR_PARAGRAPHS[code]
    assert "\nWhat to do: " in ERROR_PARAGRAPHS[code]


def test_no_error_is_raised_with_an_unknown_code() -> None:
    """Every code that appears in the sources is in the table of codes."""
    texts = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES_OF_CODE)
    assert set(re.findall(r'"(E\d{3})"', texts)) <= set(CODES)


# Audits.


def find_kinds(*modules: str) -> set[str]:
    """Return the kinds of findings that modules name."""
    package = ROOT / "src" / "answerkey"
    texts = "\n".join((package / f"{name}.py").read_text(encoding="utf-8") for name in modules)
    kinds = set(re.findall(r'"([A-Z]{4,}(?:_[A-Z]+)+|ONE_CHOICE|FORMAT|CUT_OFF|MOJIBAKE)"', texts))
    return kinds | set(re.findall(r'Finding\(\s*"([A-Z_]+)"', texts))


def list_documented_kinds(page: str) -> set[str]:
    """Return the kinds in the first cells of the table of findings."""
    cells = re.findall(r"^\| (.+?) \|", read_table(read_page(page), "| kind |"), re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def test_every_extractor_says_what_it_reads() -> None:
    """The table has each extractor by its name, with the sentence of the code."""
    page = read_page("audit").partition("## Findings")[0]
    table = dict(re.findall(r"^\| `([^`]+)` \| (.+) \|$", page, re.MULTILINE))
    assert table == {name: extractor.about for name, extractor in EXTRACTORS.items()}


def test_every_finding_of_a_run_is_explained() -> None:
    """Each kind of the code is in the table, and each of the table in the code."""
    kinds = find_kinds("run_audit/findings") | {"INVALID", "DOUBTED"}
    assert list_documented_kinds("audit") == kinds


def test_every_finding_of_a_dataset_is_explained() -> None:
    """Each kind of the code is in the table, and each of the table in the code."""
    kinds = find_kinds("dataset_audit/audit", "dataset_audit/questions")
    assert list_documented_kinds("audit-dataset") == kinds
