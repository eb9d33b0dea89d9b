"""The reference says what the code does: every command, option, field, reason, code and example."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

import click
import polars as pl
import pytest
from pydantic import BaseModel
from ruamel.yaml import YAML

from answerkey.cli import app
from answerkey.cli.options import REPORT_OPTIONS
from answerkey.cli.run import run_command
from answerkey.datasets.sources import SOURCES
from answerkey.errors import CODES, Place
from answerkey.evaluate.run import RunOptions, ScoreOptions
from answerkey.gates.policies import RULE, PolicyFields, RuleFields, build_policies
from answerkey.gates.rules import RULES as GATE_RULES
from answerkey.metrics import METRICS, base
from answerkey.options import DECLARATIONS
from answerkey.reader import EXTRACTORS, PART_REASONS, PARTS, REASONS
from answerkey.scorers import SCORERS
from answerkey.scorers.extraction import RULES as EXTRACTION_RULES
from answerkey.scorers.mcqa import PROMPT
from answerkey.scorers.question import FAULTS
from answerkey.solvers import SOLVERS
from answerkey.spec import Options, actions, models, run_file, shapes, trials
from answerkey.spec.config import Config
from answerkey.spec.nodes import ProblemList, from_plain
from answerkey.spec.parameters import PARAMETERS
from answerkey.spec.sources import SOURCE
from answerkey.spec.task import SCORER, SOLVER
from answerkey.spec.validation import DEPRECATIONS, FOREIGN_TYPES, fields_of
from answerkey.templates import FilterOp, RowFilter
from answerkey.types import GateCheck, GateStatus, Scores

from .scripts import PACKAGE, read


def read_page(name: str) -> str:
    """Return a page of the reference."""
    return read(f"docs/reference/{name}.md")


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


METRIC_SECTIONS = split_page(read_page("metrics"), "## `([^`]+)`")
METRIC_EXAMPLES = [
    (YAML(typ="safe").load(source), json.loads(outcome))
    for section in METRIC_SECTIONS.values()
    for source, outcome in re.findall(r"```yaml\n(.*?)```\n```json\n(.*?)```", section, re.DOTALL)
]
METRIC_TYPES = [fields["type"] for fields, _ in METRIC_EXAMPLES]
EXCLUSIONS = (
    *(base.FAILED, base.ERROR, "excluded:<key>", base.NULL, base.NOT_FINITE),
    *(base.NO_WEIGHT, base.NEITHER_ANSWER),
)
POLICY_PAGE = read_page("policies")
POLICY_TEXTS = re.findall(r"```yaml\n(policies:.*?)```", POLICY_PAGE, re.DOTALL)
POLICY_SECTIONS = dict(
    re.findall(r"^### `([^`]+)`\n(.*?)(?=^##|\Z)", POLICY_PAGE, re.MULTILINE | re.DOTALL)
)
ERROR_PARAGRAPHS = split_page(read_page("errors"), r"### (E\d{3})")


def list_extractors() -> list[tuple[str, str]]:
    """Return the rows of the table of extractors: name and what it reads."""
    page = read_page("audit").partition("## Findings")[0]
    return re.findall(r"^\| `([^`]+)` \| (.+) \|$", page, re.MULTILINE)


def list_check_fields() -> list[str]:
    """Return what the page of the run folder says of the checks of a gate."""
    table = read_page("run-folder").partition("An entry of `checks`")[2].partition("\n\nSecrets")[0]
    cells = [row.partition(" | ")[0] for row in table.splitlines() if row.startswith("| `")]
    return re.findall(r"`(\w+)`", "".join(cells))


def list_findings(page: str) -> list[str]:
    """Return the kinds in the first cells of the table of findings, sorted."""
    cells = re.findall(r"^\| (.+?) \|", read_table(read_page(page), "| kind |"), re.MULTILINE)
    return sorted({name for cell in cells for name in re.findall(r"`(\w+)`", cell)})


def find_kinds(*modules: str) -> set[str]:
    """Return the kinds of findings that modules name."""
    texts = "\n".join((PACKAGE / f"{name}.py").read_text(encoding="utf-8") for name in modules)
    kinds = set(re.findall(r'"([A-Z]{4,}(?:_[A-Z]+)+|ONE_CHOICE|FORMAT|CUT_OFF|MOJIBAKE)"', texts))
    return kinds | set(re.findall(r'Finding\(\s*"([A-Z_]+)"', texts))


def list_tables() -> Iterator[tuple[str, Iterable[object], Iterable[object]]]:
    """Yield what a table or the headings of a page list, and what the code has, in the same
    order.
    """
    for name, scorer in SCORERS.items():
        page = read_page(f"scorer-{name}")
        yield f"fields of {name}", list_rows(read_section(page, "Fields")), list_fields(scorer)
        if scorer.value_types:
            outputs = [*scorer.value_types, *(scorer.metadata_types or ())]
            yield f"outputs of {name}", list_rows(read_section(page, "Outputs")), outputs
    page = read_page("scorer-string_equals_mcqa")
    yield "reasons", list_rows(read_section(page, "The rule `first_character`")), REASONS
    yield "faults", list_rows(read_section(page, "Choices and ground truths")), FAULTS
    yield "metrics", METRIC_SECTIONS, METRICS
    for name, metric in METRICS.items():
        yield f"fields of {name}", list_rows(METRIC_SECTIONS[name]), list_fields(metric)
    table = read_table(read_page("metrics"), "| reason in `n_excluded` |")
    yield "exclusions", list_rows(table), EXCLUSIONS
    yield "rules of policies", POLICY_SECTIONS, GATE_RULES
    for kind in ("threshold", "not_worse"):
        yield f"fields of {kind}", list_rows(POLICY_SECTIONS[kind]), list_fields(GATE_RULES[kind])
    yield "fields of a check", sorted(set(list_check_fields())), sorted(list_fields(GateCheck))
    yield "error codes", ERROR_PARAGRAPHS, CODES
    extractors = [(name, extractor.about) for name, extractor in EXTRACTORS.items()]
    yield "extractors", list_extractors(), extractors
    kinds = find_kinds("run_audit/findings") | {"INVALID", "DOUBTED"}
    yield "findings of a run", list_findings("audit"), sorted(kinds)
    kinds = find_kinds("dataset_audit/audit", "dataset_audit/questions")
    yield "findings of a dataset", list_findings("audit-dataset"), sorted(kinds)


@pytest.mark.parametrize(
    ("listed", "expected"),
    [pytest.param(listed, expected, id=name) for name, listed, expected in list_tables()],
)
def test_pages_list_what_the_code_has(listed: Iterable[object], expected: Iterable[object]) -> None:
    """Every field, output, reason, section, code and finding has its line, and nothing else has."""
    assert list(listed) == list(expected)


def test_the_prompt_of_a_fallback_is_documented() -> None:
    """What a model is asked about a completion is documented word by word."""
    assert f"```text\n{PROMPT}\n```" in read_page("extraction-rules")


def test_every_metric_and_every_rule_of_a_policy_has_an_example() -> None:
    """Each type stands in a block of YAML of its page."""
    assert set(METRIC_TYPES) == METRICS.keys()
    assert set(re.findall(r"\btype: \"?(\w+)", "\n".join(POLICY_TEXTS))) == GATE_RULES.keys()


@pytest.mark.parametrize(("fields", "outcome"), METRIC_EXAMPLES, ids=METRIC_TYPES)
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


MODELS: dict[str, list[type[BaseModel]]] = {
    "task-file": [
        *(shapes.TaskFields, shapes.Definition, shapes.DatasetChoice, actions.ActionFields),
        *(trials.TrialsFields, shapes.MetricCommon, fields_of(RowFilter)),
        *PARAMETERS.values(),
        *(SCORER.model(kind) for kind in SCORERS),
        *(SOLVER.model(kind) for kind in SOLVERS),
    ],
    "run-file": [
        *(run_file.RunFields, run_file.EvaluationFields, run_file.SpecificationFields),
        *(run_file.RunConfigFields, trials.TrialsFields),
    ],
    "policies": [PolicyFields, RuleFields, *(RULE.model(kind) for kind in GATE_RULES)],
    "dataset-file": [
        shapes.DatasetFields,
        fields_of(RowFilter),
        *(SOURCE.model(kind) for kind in SOURCES),
    ],
    "model-file": [
        *(models.ModelFields, models.ProviderModel, models.AdapterFields, models.Code),
        *models.CONNECTIONS.values(),
    ],
}
TYPES: dict[str, list[str]] = {
    "task-file": [*PARAMETERS, *SCORERS, *SOLVERS, "trials", "declarative_task"],
    "policies": [*GATE_RULES, *GateStatus],
    "dataset-file": [*SOURCES, *FOREIGN_TYPES["source"], *get_args(FilterOp)],
    "model-file": [*models.CONNECTIONS, "$provider"],
    "extraction-rules": [
        *(*EXTRACTION_RULES, *PART_REASONS, "answer_span"),
        *(part for parts in PARTS.values() for part in parts),
    ],
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
    """Types, rules, reasons, and what is refused by name are on their page."""
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
    helps = {getattr(parameter, "help", None) for parameter in run_command.params}
    assert {declared.text for declared in DECLARATIONS.values()} - helps == {""}


@pytest.mark.parametrize("text", POLICY_TEXTS)
def test_every_example_of_a_policy_is_read(text: str) -> None:
    """The policies of the page are valid."""
    problems = ProblemList()
    content = from_plain(YAML(typ="safe").load(text)["policies"], Place(), problems)
    policies, _ = build_policies(content, config=Config(), base=Path())
    assert policies
    assert problems.errors == []


def test_the_options_for_ci_servers_are_two() -> None:
    """`--junit` and `--summary` are on the page."""
    assert len(REPORT_OPTIONS) == 2
    assert "`--junit FILE`" in POLICY_PAGE
    assert "`--summary FILE`" in POLICY_PAGE


@pytest.mark.parametrize("code", CODES)
def test_each_error_has_an_example_and_what_to_do(code: str) -> None:
    """A paragraph says what the code means, gives an example and says what to do."""
    assert "\nExample: " in ERROR_PARAGRAPHS[code]
    assert "\nWhat to do: " in ERROR_PARAGRAPHS[code]


def test_no_error_is_raised_with_an_unknown_code() -> None:
    """Every code that appears in the sources is in the table of codes."""
    texts = "\n".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    assert set(re.findall(r'"(E\d{3})"', texts)) <= set(CODES)


# Every command and every option is in the docs, with an example that the code understands.

PAGE = read("docs/reference/commands.md")
COMMON = ("--json", "--verbose", "-v", "--quiet", "-q", "--help", "-h", "--version")


def read_sections() -> dict[str, str]:
    """Return command → the text below its heading."""
    _, *parts = re.split(r"^## answerkey (.+)$", PAGE, flags=re.MULTILINE)
    texts = [text.partition("\n## ")[0] for text in parts[1::2]]
    return dict(zip(parts[::2], texts, strict=True))


def list_options(name: str) -> list[str]:
    """Return the names of a command's options, short forms included."""
    options = [option for option in load_command(name).params if isinstance(option, click.Option)]
    return [form for option in options for form in (*option.opts, *option.secondary_opts)]


def load_command(name: str) -> click.Command:
    """Return the command as the code has it."""
    command = app.get_command(click.Context(app), name)
    assert command is not None
    return command


def test_the_page_has_every_command_and_no_other() -> None:
    """The headings are the commands, in the order of `--help` within their groups."""
    assert sorted(read_sections()) == sorted(app.commands)


@pytest.mark.parametrize("name", app.commands)
def test_every_option_is_in_the_section_of_its_command(name: str) -> None:
    """No option is undocumented, short forms included."""
    names = set(list_options(name)) - set(COMMON)
    assert [form for form in names if f"`{form}" not in read_sections()[name]] == []


@pytest.mark.parametrize("name", app.commands)
def test_no_section_invents_an_option(name: str) -> None:
    """Each option that a section shows in code is an option of some command."""
    options = {form for command in app.commands for form in list_options(command)}
    assert set(re.findall(r"`(--[a-z0-9-]+)", read_sections()[name])) <= options | set(COMMON)


@pytest.mark.parametrize("option", COMMON)
def test_the_options_of_all_commands_are_in_the_introduction(option: str) -> None:
    """What is understood everywhere is said once, at the top."""
    assert f"`{option}`" in PAGE.split("\n## ")[0]


@pytest.mark.parametrize("name", app.commands)
def test_every_section_and_every_help_has_an_example(name: str) -> None:
    """A command line to copy; those of the page are run by `test_documents.py`."""
    assert re.search(rf"^answerkey {name}\b", read_sections()[name], re.MULTILINE)
    assert f"answerkey {name}" in (load_command(name).epilog or "")
