from __future__ import annotations

import pytest

from answerkey.errors import Place
from answerkey.spec.config import Config, Given, given_by_caller, read_parameters, resolve_config
from answerkey.spec.nodes import Problems, from_plain, parse_yaml, to_plain
from answerkey.templates import Template

Spec = dict[str, object]


def declare(spec: Spec) -> tuple[Config, Problems]:
    """Return a config of one parameter `p`, with its default."""
    problems = Problems()
    node = from_plain([{"key": "p", "display_name": "P"} | spec], Place("task.yaml", 1, 1))
    parameters = read_parameters(node, problems)
    return resolve_config(parameters, {}, problems, place=Place("task.yaml"), needs_all=False), problems


def give(spec: Spec, value: object) -> object:
    """Return the value that a parameter `p` takes when it is given one, or the message of the error."""
    config, problems = declare(spec)
    assert problems.errors == []
    found = resolve_config(
        config.parameters, {"p": Given(value, Place("run.yaml", 2, 3))}, problems, place=Place()
    )
    if problems.errors:
        assert [(error.code, str(error.where)) for error in problems.errors] == [("E111", "run.yaml:2:3")]
        return problems.errors[0].message
    return found.values["p"]


def type_in(spec: Spec, text: str) -> object:
    """Return the value of `--config p=text`, or the message of the error."""
    config, problems = declare(spec)
    found = resolve_config(config.parameters, given_by_caller({"p": text}), problems, place=Place())
    return problems.errors[0].message if problems.errors else found.values["p"]


INT: Spec = {"type": "int", "min": 1, "max": 3}
FLOAT: Spec = {"type": "float", "min": 0, "max": 1}
BOOL: Spec = {"type": "boolean"}
STRING: Spec = {"type": "string", "examples": ["x"]}
ONE: Spec = {"type": "categorical", "allowed_values": ["red", "blue", 3]}
MANY: Spec = {"type": "categorical", "allowed_values": ["red", "blue"], "multiple": True}
LIST: Spec = {"type": "list", "dtype": "integer"}
TEXTS: Spec = {"type": "list", "dtype": "string"}
DICT: Spec = {"type": "dict", "value_dtype": "float"}


@pytest.mark.parametrize(
    ("spec", "value", "taken"),
    [
        (INT, 2, 2),
        (INT, "2", 2),
        (INT, 2.0, 2),
        (INT, 4, "config value `p` is 4, above `max` 3"),
        (INT, 0, "config value `p` is 0, below `min` 1"),
        (INT, 1.5, "config value `p` must be a whole number, not 1.5"),
        (INT, True, "config value `p` must be a whole number, not True"),
        (FLOAT, 1, 1.0),
        (FLOAT, "0.5", 0.5),
        (FLOAT, 1.5, "config value `p` is 1.5, above `max` 1.0"),
        (FLOAT, "nan", "config value `p` must be a number, not 'nan'"),
        (FLOAT, False, "config value `p` must be a number, not False"),
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
        (TEXTS, [True], "config value `p` entry 1 must be text, not True"),
        ({"type": "list", "dtype": "boolean"}, ["yes", False], [True, False]),
        ({"type": "list", "dtype": "float"}, [1], [1.0]),
        (DICT, {"a": 1}, {"a": 1.0}),
        (DICT, {"a": "x"}, "config value `p` `a` must be a number, not 'x'"),
        (DICT, [1], "config value `p` must be a mapping, not [1]"),
        ({"type": "model"}, "openai$gpt", "openai$gpt"),
        ({"type": "dataset"}, 3, "config value `p` must be a name, not 3"),
        ({"type": "dataset_column"}, "answer key", "answer key"),
        ({"type": "dataset_column"}, 3, "3"),
        ({"type": "dataset_column"}, "", "config value `p` must be a name, not ''"),
        ({"type": "task_result"}, "other", "other"),
    ],
)
def test_each_type_takes_its_values(spec: Spec, value: object, taken: object) -> None:
    """A value is taken as its type has it, or refused with what it must be."""
    found = give(spec, value)
    assert found == taken
    assert type(found) is type(taken)


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
        (LIST, "[1, 2", "config value `p` is not a JSON list: '[1, 2'"),
        (LIST, "", []),
        (TEXTS, '["a,b"]', ["a,b"]),
        (DICT, '{"a": 1}', {"a": 1.0}),
        (DICT, "a=1", "config value `p` is not JSON: 'a=1'"),
        (STRING | {"nullable": True}, "null", None),
    ],
)
def test_command_line_texts_are_read_by_type(spec: Spec, text: str, taken: object) -> None:
    """A text of `--config` is read as the declared type."""
    assert type_in(spec, text) == taken


@pytest.mark.parametrize(
    ("spec", "code", "message"),
    [
        (INT | {"default_value": 9}, "E111", "default of config parameter `p` is 9, above `max` 3"),
        (MANY | {"default_value": "red"}, "E111", "default of config parameter `p` must be a list of allowed values, not 'red'"),  # noqa: E501 - one case, one line
        (LIST | {"default_value": ["x"]}, "E111", "default of config parameter `p` entry 1 must be a whole number, not 'x'"),  # noqa: E501 - same
        (INT | {"min": 5}, "E111", "`min` 5 is above `max` 3"),
        (ONE | {"values_mapping": {"x": 1}}, "E111", "`values_mapping` maps 'x', which is not in `allowed_values`"),  # noqa: E501 - same
        ({"type": "categorical"}, "E108", "`allowed_values` is missing in `config_spec` entry 1"),
        ({"type": "list", "dtype": "str"}, "E108", "`dtype` is 'str'; it must be 'string', 'integer', 'float' or 'boolean'"),  # noqa: E501 - same
        ({"type": "strin"}, "E109", "unknown parameter type 'strin'"),
        (STRING | {"minimum": 1}, "E107", "unknown key `minimum` in `config_spec` entry 1"),
        (STRING | {"key": "a b"}, "E108", "`key` is 'a b'; it must match `^[a-zA-Z0-9_\\-]+$`"),
    ],
)  # fmt: skip
def test_declarations_are_checked(spec: Spec, code: str, message: str) -> None:
    """Defaults, bounds and fields of a parameter are checked before anything runs."""
    _, problems = declare(spec)
    assert [(error.code, error.message) for error in problems.errors] == [(code, message)]


def test_parameters_are_declared_once() -> None:
    """Two parameters with one key are an error."""
    problems = Problems()
    one = {"type": "int", "key": "n", "display_name": "N"}
    read_parameters(from_plain([one, one], Place()), problems)
    assert [error.code for error in problems.errors] == ["E114"]


def test_a_missing_value_is_an_error() -> None:
    """A parameter without a default must be given; a nullable one is null."""
    problems = Problems()
    spec = [
        {"type": "int", "key": "n", "display_name": "N"},
        {"type": "int", "key": "m", "display_name": "M", "nullable": True},
    ]
    parameters = read_parameters(from_plain(spec, Place()), problems)
    config = resolve_config(parameters, {}, problems, place=Place("task.yaml", 1, 1))
    assert [(error.code, error.message) for error in problems.errors] == [
        ("E111", "config value `n` is missing")
    ]
    assert config.values == {"m": None}


def test_an_unknown_name_gets_a_suggestion() -> None:
    """A value for a name that is not declared is an error with the nearest name."""
    config, problems = declare(INT | {"key": "number", "default_value": 1})
    resolve_config(config.parameters, given_by_caller({"nmber": "1"}), problems, place=Place())
    assert [(error.code, error.hint) for error in problems.errors] == [("E110", "did you mean `number`?")]


def fill(text: str, spec: Spec, value: object) -> tuple[object, Problems]:
    """Return a YAML text with `<< config.p >>` filled in."""
    config, problems = declare(spec)
    filled = resolve_config(config.parameters, {"p": Given(value, Place())}, problems, place=Place())
    return to_plain(filled.fill(parse_yaml(text, "task.yaml", problems), problems)), problems


def test_a_whole_value_keeps_its_type() -> None:
    """`<< config.p >>` alone is the value itself: a number, a list, a mapping; inner spaces are optional."""
    assert fill("a: << config.p >>", INT, 2)[0] == {"a": 2}
    assert fill("a: <<config.p>>", LIST, [1])[0] == {"a": [1]}
    assert fill("a: << config.p >>", DICT, {"x": 1})[0] == {"a": {"x": 1.0}}


def test_embedded_values_become_text() -> None:
    """Inside longer text a value becomes text; after `sample.` a name with spaces becomes bracket access."""
    assert fill("a: n << config.p >>", INT, 2)[0] == {"a": "n 2"}
    text = 'definition: {scorers: [{choices: "{{ sample.<< config.p >> }}"}]}'
    found, _ = fill(text, {"type": "dataset_column"}, "answer key")
    assert found == {"definition": {"scorers": [{"choices": "{{ sample['answer key'] }}"}]}}


def test_a_mapped_value_is_what_it_stands_for() -> None:
    """`values_mapping` says what `<< config.p >>` becomes."""
    spec = ONE | {"values_mapping": {"red": "#f00"}}
    assert fill("a: << config.p >>", spec, "red")[0] == {"a": "#f00"}
    assert fill("a: << config.p >>", spec, "blue")[0] == {"a": "blue"}


def test_config_is_resolved_once() -> None:
    """A value that holds `<< config.p >>` is not searched again."""
    assert fill("a: << config.p >>", STRING, "<< config.q >>")[0] == {"a": "<< config.q >>"}


def test_an_unknown_name_stays_in_the_text() -> None:
    """An unknown name is reported at its place, and the text stays so that the rest can be checked."""
    found, problems = fill("a: x\nb: << config.q >>", INT, 2)
    assert found == {"a": "x", "b": "<< config.q >>"}
    assert [(error.code, str(error.where)) for error in problems.errors] == [("E110", "task.yaml:2:4")]


def test_a_value_is_never_run_as_a_template() -> None:
    """A freeform text with Jinja marks stays literal in a template field."""
    text = 'definition: {scorers: [{choices: "<< config.p >>"}]}'
    config, problems = declare(STRING | {"default_value": "{{ 1 + 1 }}"})
    filled = config.fill(parse_yaml(text, "task.yaml", problems), problems)
    source = filled.at("definition", "scorers", 0, "choices")
    assert Template.compile(to_plain(source)).render() == "{{ 1 + 1 }}"
