from __future__ import annotations

import pytest

from answerkey.errors import Place
from answerkey.spec.config import Config, parse_caller_config, resolve_config
from answerkey.spec.nodes import ProblemList, from_plain, parse_yaml, to_plain
from answerkey.templates import Template

Spec = dict[str, object]


PLACE = Place("run.yaml", 2, 3)


def resolve(spec: Spec, **values: object) -> tuple[Config, ProblemList]:
    """Return the config of one parameter `p`, from its default or from what is given."""
    problems = ProblemList()
    plain = {"config_spec": [{"key": "p", "display_name": "P"} | spec]}
    node = from_plain(plain, Place("task.yaml", 1, 1), problems)
    settings = from_plain(values, PLACE, problems).entries
    return resolve_config(node, settings, needs_all=bool(values)), problems


def list_messages(problems: ProblemList) -> list[tuple[str, str]]:
    """Return code and message of every error."""
    return [(error.code, error.message) for error in problems.errors]


INT: Spec = {"type": "int", "min": 1, "max": 3}
FLOAT: Spec = {"type": "float", "min": 0, "max": 1}
BOOL: Spec = {"type": "boolean"}
STRING: Spec = {"type": "string", "examples": ["x"]}
ONE: Spec = {"type": "categorical", "allowed_values": ["red", "blue", 3]}
MANY: Spec = {"type": "categorical", "allowed_values": ["red", "blue"], "multiple": True}
LIST: Spec = {"type": "list", "dtype": "integer"}
TEXTS: Spec = {"type": "list", "dtype": "string"}
DICT: Spec = {"type": "dict", "value_dtype": "float"}
COLUMN: Spec = {"type": "dataset_column"}


@pytest.mark.parametrize(
    ("spec", "value", "taken"),
    [
        (INT, 2, 2),
        (INT, "2", 2),
        (INT, 4, "config value `p` is 4: input should be less than or equal to 3"),
        (INT, 0, "config value `p` is 0: input should be greater than or equal to 1"),
        (INT, 1.5, "config value `p` must be a whole number, not 1.5"),
        (INT, True, "config value `p` must be a whole number, not true"),
        (FLOAT, 1, 1.0),
        (FLOAT, "0.5", 0.5),
        (FLOAT, 1.5, "config value `p` is 1.5: input should be less than or equal to 1"),
        (FLOAT, "nan", "config value `p` must be a number, not 'nan'"),
        (FLOAT, False, "config value `p` must be a number, not false"),
        (BOOL, True, True),
        (BOOL, "yes", True),
        (BOOL, "off", False),
        (BOOL, 2, "config value `p` must be true or false, not 2"),
        (STRING, "x y", "x y"),
        (STRING, 7, "7"),
        (STRING, 1.5, "config value `p` must be text, not 1.5"),
        (STRING, None, "config value `p` may not be null"),
        (STRING | {"nullable": True}, None, None),
        (ONE, "red", "red"),
        (ONE, 3, 3),
        (ONE, "reed", "config value `p` is 'reed'; allowed: `red`, `blue`, `3`"),
        (MANY, ["red", "blue"], ["red", "blue"]),
        (MANY, ["green"], "config value `p` is 'green'; allowed: `red`, `blue`"),
        (MANY, "red", "config value `p` must be a list of allowed values, not 'red'"),
        (LIST, [1, "2"], [1, 2]),
        (LIST, [1, "x"], "config value `p` entry 2 must be a whole number, not 'x'"),
        (LIST, 3, "config value `p` must be a list, not 3"),
        (TEXTS, ["A", "NO"], ["A", "NO"]),
        (TEXTS, [True], "config value `p` entry 1 must be text, not true"),
        ({"type": "list", "dtype": "boolean"}, ["yes", False], [True, False]),
        ({"type": "list", "dtype": "float"}, [1], [1.0]),
        (DICT, {"a": 1}, {"a": 1.0}),
        (DICT, {"a": "x"}, "config value `p` entry `a` must be a number, not 'x'"),
        (DICT, [1], "config value `p` must be a mapping, not [1]"),
        ({"type": "model"}, "openai$gpt", "openai$gpt"),
        ({"type": "dataset"}, 3, "3"),
        ({"type": "dataset_column"}, "answer key", "answer key"),
        ({"type": "dataset_column"}, 3, "3"),
        ({"type": "dataset_column"}, "", "config value `p` is ''; it must match `\\S`"),
        ({"type": "task_result"}, "other", "other"),
    ],
)
def test_each_type_takes_its_values(spec: Spec, value: object, taken: object) -> None:
    """A value is taken as its type has it, or refused with what it must be."""
    config, problems = resolve(spec, p=value)
    assert [error.where for error in problems.errors] in ([], [PLACE])
    result = problems.errors[0].message if problems.errors else config.values["p"]
    assert result == taken
    assert type(result) is type(taken)


@pytest.mark.parametrize(
    ("spec", "text", "taken"),
    [
        (INT, "2", 2),
        (INT, "two", "config value `p` must be a whole number, not 'two'"),
        (FLOAT, "1e-1", 0.1),
        (BOOL, "True", True),
        (BOOL, "0", False),
        (STRING, "a=b", "a=b"),
        (STRING, "007", "007"),
        (ONE, "3", 3),
        (MANY, "red, blue", ["red", "blue"]),
        (LIST, "1,2", [1, 2]),
        (LIST, "[1, 2]", [1, 2]),
        (LIST, "[1, 2", "config value `p` is not JSON: '[1, 2'"),
        (LIST, "", []),
        (TEXTS, '["a,b"]', ["a,b"]),
        (DICT, '{"a": 1}', {"a": 1.0}),
        (DICT, "a=1", "config value `p` must be a mapping, not ['a=1']"),
        (STRING | {"nullable": True}, "null", None),
    ],
)
def test_command_line_texts_are_read_by_type(spec: Spec, text: str, taken: object) -> None:
    """A text of `--config` is read as the declared type."""
    problems = ProblemList()
    plain = {"config_spec": [{"key": "p", "display_name": "P"} | spec]}
    settings = parse_caller_config({"p": text}, problems)
    config = resolve_config(from_plain(plain, PLACE, problems), settings)
    result = problems.errors[0].message if problems.errors else config.values["p"]
    assert result == taken


@pytest.mark.parametrize(
    ("spec", "code", "message"),
    [
        (INT | {"default_value": 9}, "E111", "config value `p` is 9: input should be less than or equal to 3"),  # noqa: E501 - same
        (MANY | {"default_value": "red"}, "E111", "config value `p` must be a list of allowed values, not 'red'"),  # noqa: E501 - one case, one line
        (LIST | {"default_value": ["x"]}, "E111", "config value `p` entry 1 must be a whole number, not 'x'"),  # noqa: E501 - same
        (INT | {"min": 5}, "E111", "`min` 5 is above `max` 3"),
        (ONE | {"values_mapping": {"x": 1}}, "E111", "`values_mapping` maps 'x', which is not in `allowed_values`"),  # noqa: E501 - same
        ({"type": "categorical"}, "E108", "`allowed_values` is missing in `config_spec` entry 1"),
        ({"type": "list", "dtype": "str"}, "E108", "`dtype` is 'str'; it must be 'string', 'integer', 'float' or 'boolean'"),  # noqa: E501 - same
        ({"type": "strin"}, "E109", "`config_spec` entry 1: unknown parameter type 'strin'"),
        (STRING | {"minimum": 1}, "E107", "unknown key `minimum` in `config_spec` entry 1"),
        (STRING | {"key": "a b"}, "E108", "`key` is 'a b'; it must match `^[a-zA-Z0-9_\\-]+$`"),
    ],
)  # fmt: skip
def test_declarations_are_checked(spec: Spec, code: str, message: str) -> None:
    """Defaults, bounds and fields of a parameter are checked before anything runs."""
    _, problems = resolve(spec)
    assert list_messages(problems) == [(code, message)]


def test_what_is_missing_unknown_or_declared_twice_is_an_error() -> None:
    """A parameter without a default must be given, a nullable one is null.

    A wrong name gets the nearest.
    """
    problems = ProblemList()
    number = {"type": "int", "key": "number", "display_name": "N"}
    spec = [number, number, number | {"key": "other", "nullable": True}]
    node = from_plain({"config_spec": spec}, Place(), problems)
    config = resolve_config(node, parse_caller_config({"nmber": "1"}, problems))
    assert [(error.code, error.message, error.hint) for error in problems.errors] == [
        ("E114", "config parameter `number` is declared twice", None),
        ("E110", "unknown config name `nmber`", "did you mean `number`?"),
        ("E111", "config value `number` is missing", problems.errors[-1].hint),
    ]
    assert config.values == {"other": None}


MAPPED: Spec = ONE | {"values_mapping": {"red": "#f00"}}


@pytest.mark.parametrize(
    ("text", "spec", "value", "filled"),
    [
        ("<< config.p >>", INT, 2, 2),
        ("<<config.p>>", LIST, [1], [1]),
        ("<< config.p >>", DICT, {"x": 1}, {"x": 1.0}),
        ("n << config.p >>", INT, 2, "n 2"),
        ("<< config.p >>", MAPPED, "red", "#f00"),
        ("<< config.p >>", MAPPED, "blue", "blue"),
        ("<< config.p >>", STRING, "<< config.q >>", "<< config.q >>"),
    ],
)
def test_config_is_filled_in_once(text: str, spec: Spec, value: object, filled: object) -> None:
    """Alone, a value keeps its type or is what it stands for; inside longer text it becomes text.

    A value that holds `<< config.q >>` is not searched again.
    """
    config, problems = resolve(spec, p=value)
    result = config.fill(parse_yaml(f"a: {text}", "task.yaml", problems))
    assert (to_plain(result), problems.errors) == ({"a": filled}, [])


def test_an_unknown_name_stays_in_the_text() -> None:
    """It is reported at its place, and the text stays so that the rest can be checked."""
    config, problems = resolve(INT, p=2)
    result = config.fill(parse_yaml("a: x\nb: << config.q >>", "task.yaml", problems))
    assert to_plain(result) == {"a": "x", "b": "<< config.q >>"}
    expected = [("E110", "task.yaml:2:4")]
    assert [(error.code, str(error.where)) for error in problems.errors] == expected


@pytest.mark.parametrize(
    ("text", "spec", "source"),
    [
        ("<< config.p >>", STRING | {"default_value": "{{ 1 + 1 }}"}, None),
        ("{{ sample.<< config.p >> }}", COLUMN | {"default_value": "a b"}, "{{ sample['a b'] }}"),
    ],
)
def test_a_value_is_never_run_as_a_template(text: str, spec: Spec, source: str | None) -> None:
    """In a template a text with Jinja marks stays literal.

    A name with spaces becomes bracket access.
    """
    config, problems = resolve(spec)
    root = parse_yaml(f'definition: {{scorers: [{{choices: "{text}"}}]}}', "task.yaml", problems)
    filled = to_plain(config.fill(root).at("definition", "scorers", 0, "choices"))
    assert filled == source if source else Template.compile(filled).render() == "{{ 1 + 1 }}"
