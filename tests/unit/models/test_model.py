"""Laws of models: built-in ones, those behind an endpoint, snippets, and how a name finds them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from tests.servers import connect

from answerkey.errors import SolverError, SpecError, listing
from answerkey.models import model
from answerkey.models.builtin import (
    BUILTIN_MODELS,
    MIXED_SHARES,
    STYLE_NAMES,
    STYLES,
    remove_options,
)
from answerkey.models.calls import Budget, Event, Finished, MemoryLedger, Reused
from answerkey.models.config import (
    OPTIONS_HINT,
    Caller,
    InferenceConfig,
    ModelConfig,
    ProviderConfig,
    Secret,
    missing_facts,
)
from answerkey.models.model import LiveModel, SnippetModel, open_model
from answerkey.models.names import PROVIDERS
from answerkey.reader import read
from answerkey.sandbox import Snippet
from answerkey.testing import TestServer
from answerkey.types import Completion, CompletionStatus, Request, SampleFacts

CHOICES = ["A", "B", "C", "D"]


def ask_builtin(name: str, *, number: int = 1, **known: object) -> list[Completion]:
    """Return what a model says to some samples with four choices, of which C is right."""
    facts: dict[str, object] = {
        "choices": CHOICES,
        "truth": "C",
        "options": ["w", "x", "y", "z"],
        **known,
    }
    questions = [Request(str(i), [], **facts) for i in range(number)]  # type: ignore[arg-type]  # fields by name
    return open_model(name).complete(questions)


def refuse(name: str) -> SpecError:
    """Return the error of a name that finds no model."""
    with pytest.raises(SpecError) as caught:
        open_model(name)
    return caught.value


@pytest.mark.parametrize("kind", list(BUILTIN_MODELS))
def test_only_the_simulator_is_simulated(kind: str) -> None:
    """The baselines are real.

    The simulator says that it is not. A model is called what the user wrote.
    """
    opened = open_model(f"builtin/{kind}")
    assert (opened.is_simulated, opened.name) == (kind == "simulated", f"builtin/{kind}")


LISTED = "Is Mars a red planet?\nA. blue star\nB. red planet\nC. moon\nD. sun"
WORDS = ["the sea the sea", "A red Planet", "moon", "none"]


@pytest.mark.parametrize(
    ("name", "facts", "text"),
    [
        # The constant model says its choice, `A` if none is given, and needs to know nothing.
        ("constant?choice=B", {}, "B"),
        ("constant", {}, "A"),
        ("constant?choice=Answer%3A%20%26", {}, "Answer: &"),
        ("constant?choice=1", {"choices": None, "truth": None, "options": None}, "1"),
        # Length is counted in characters without surrounding white space.
        ("longest", {"options": ["ab", "a    ", "abc", "  b  "]}, "C"),
        # Distinct words count, without case; in scripts without spaces each character.
        ("overlap", {"options": WORDS, "text": "Which planet is like the sea?"}, "A"),
        ("overlap", {"options": WORDS, "text": "Is the sea a red PLANET?"}, "B"),
        ("overlap", {"options": ["東京", "北海道", "大阪", "x"], "text": "北の海はどこ"}, "B"),
        # A prompt that lists the options does not make them all alike.
        ("overlap", {"options": ["blue star", "red planet", "moon", "sun"], "text": LISTED}, "B"),
        # Where there is no wrong choice, the right one is said.
        ("simulated?accuracy=0&style=bare", {"choices": ["C"], "options": ["y"]}, "C"),
        ("simulated?accuracy=1&style=bare", {}, "C"),
        ("simulated?accuracy=0&style=bare", {"choices": ["B", "C"], "options": None}, "B"),
    ],
)
def test_what_a_built_in_model_says(name: str, facts: dict[str, object], text: str) -> None:
    """To two samples alike."""
    assert [reply.text for reply in ask_builtin(f"builtin/{name}", number=2, **facts)] == [text] * 2


def test_random_draws_each_choice_alike() -> None:
    """Each of K choices is drawn in about one K-th of the samples."""
    counts = Counter(reply.text for reply in ask_builtin("builtin/random", number=4000))
    assert set(counts) == set(CHOICES)
    assert all(900 < count < 1100 for count in counts.values())


def test_random_is_the_same_for_the_same_seed() -> None:
    """The draw depends on seed and sample id: literal draws, so that a change is noticed."""
    for seed, drawn in enumerate(("DBBDBBDCCDDD", "DADCACDADBDB")):
        replies = ask_builtin(f"builtin/random?seed={seed}", number=12)
        assert "".join(str(reply.text) for reply in replies) == drawn


@pytest.mark.parametrize("name", ["random?seed=5", "simulated", "longest", "overlap"])
def test_answers_do_not_depend_on_order_or_company(name: str) -> None:
    """A sample's completion is the same alone, in any order and in any chunk."""
    opened = open_model(f"builtin/{name}")
    questions = [Request(f"s{i}", [], CHOICES, ["x"] * 4, "A", "x") for i in range(50)]
    together = opened.complete(questions)
    assert opened.complete(questions[::-1])[::-1] == together
    assert [opened.complete([question])[0] for question in questions] == together


@pytest.mark.parametrize("name", ["random", "simulated?style=bare"])
def test_every_trial_is_drawn_anew(name: str) -> None:
    """Trials of a sample differ, each is the same every time, and trial 0 is the sample asked
    once.
    """
    opened = open_model(f"builtin/{name}")
    questions = [Request(f"s{i}", [], CHOICES, None, "A", "x") for i in range(40)]
    requests_by_trial = [[replace(question, trial=n) for question in questions] for n in range(3)]
    trials = [opened.complete(requests) for requests in requests_by_trial]
    assert trials[0] == opened.complete(questions)
    assert trials[0] != trials[1] != trials[2] != trials[0]
    assert opened.complete([replace(question, trial=2) for question in questions]) == trials[2]


def test_ties_are_drawn() -> None:
    """Options of the same length are drawn among, so that no position is favoured."""
    replies = ask_builtin("builtin/longest", number=60, options=["ab", "x", "cd", "ef"])
    assert {reply.text for reply in replies} == {"A", "C", "D"}


def test_options_are_removed_as_whole_words_and_once() -> None:
    """The last whole occurrence of each option goes; a part of a word stays."""
    assert remove_options("art and part: art", ["art"]) == "art and part:  "
    assert remove_options("A. x y B. x", ["x", "x y"]) == "A.   B.  "
    assert remove_options("nothing", ["", " "]) == "nothing"


CHOICES_HINT = "give the task a scorer with `choices`, such as `string_equals_mcqa`"
TRUTH_HINT = "give the task a scorer with a ground truth, such as `string_equals_mcqa`"


@pytest.mark.parametrize(
    ("names", "facts", "message", "hint"),
    [
        (["longest", "overlap"], {"options": None}, "has none", OPTIONS_HINT),
        (["longest", "overlap"], {"options": ["one"]}, "has 1 for 4 choices", OPTIONS_HINT),
        (["longest", "overlap"], {"options": []}, "has 0 for 4 choices", OPTIONS_HINT),
        (["random", "simulated?style=bare"], {"choices": None}, "has none", CHOICES_HINT),
        (["simulated?style=bare"], {"truth": None}, "has none", TRUTH_HINT),
    ],
)
def test_what_a_model_lacks_is_told(
    names: list[str], facts: dict[str, Any], message: str, hint: str
) -> None:
    """A model that reads option texts, choices or the key says where they come from."""
    for name in names:
        with pytest.raises(SpecError) as caught:
            ask_builtin(f"builtin/{name}", **facts)
        assert (caught.value.code, caught.value.hint) == ("E301", hint)
        assert caught.value.message.endswith(f"sample `0` {message}")


def test_simulated_accuracy_is_what_the_model_means() -> None:
    """In the bare style the share of right letters is the accuracy; wrong ones are spread."""
    replies = ask_builtin("builtin/simulated?accuracy=0.7&style=bare", number=4000)
    counts = Counter(reply.text for reply in replies)
    assert 2700 < counts["C"] < 2900
    assert all(330 < counts[choice] < 470 for choice in "ABD")


@pytest.mark.parametrize("style", [name for name in STYLE_NAMES if name != "mixed"])
def test_simulated_style_uses_its_own_forms(style: str) -> None:
    """Every form of a style appears, and no other."""
    replies = ask_builtin(f"builtin/simulated?accuracy=1&style={style}", number=300)
    results = {reply.text for reply in replies}
    assert results == {form.format(c="C", t="y", o="?") for form in STYLES[style]}


def test_mixed_style_has_the_documented_shares() -> None:
    """The shares add up to 100, all of them appear, refusals are marked as such."""
    assert sum(MIXED_SHARES.values()) == 100
    assert set(MIXED_SHARES) == set(STYLES)
    answers = ask_builtin("builtin/simulated", number=5000)
    refused = [answer for answer in answers if answer.status is CompletionStatus.REFUSED]
    assert 70 < len(refused) < 130
    assert all(reply.text is None and reply.reply and reply.reply["refusal"] for reply in refused)
    assert 2150 < sum(answer.text in set(CHOICES) for answer in answers) < 2350
    assert 30 < sum(answer.text is not None and not answer.text.strip() for answer in answers) < 75


def test_every_simulated_answer_can_be_read() -> None:
    """A reply that names its choice is read as that choice, and a reply that names none as none."""
    forms = [form for style in set(STYLES) - {"several", "refusal"} for form in STYLES[style]]
    options = ["Rome", "Oslo", "Paris", "Lima"]
    readings = {
        form: read(form.format(c="C", t="Paris", o="B"), list("ABCD"), options).choice
        for form in forms
    }
    assert readings == {form: "C" if "{c}" in form else None for form in forms}


SERVED = (
    "name its provider: on this machine `ollama/{0}`, `vllm/{0}`, `lmstudio/{0}`, `llamacpp/{0}`, "
    "`sglang/{0}`; elsewhere `openai/…`, `anthropic/…`, `gemini/…`, `azure/…` and "
    f"{len(PROVIDERS) - 9} more; any: `http://HOST/v1#{{0}}`"
)
BUILTIN = (
    "built-in models: `builtin/constant`, `builtin/random`, `builtin/longest`, `builtin/overlap`, "
    "`builtin/simulated`"
)


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("builtin/randon", "unknown model `{}`", "did you mean `builtin/random`?"),
        ("random", "unknown model `{}`", "did you mean `builtin/random`?"),
        ("bultin/random?seed=1", "unknown model `{}`", "did you mean `builtin/random`?"),
        ("builtin/zzz", "unknown model `{}`", BUILTIN),
        ("builtin/", "unknown model `{}`", BUILTIN),
        ("", "unknown model `{}`", BUILTIN),
        ("opnai/gpt-4.1-nano", "unknown model `{}`", "did you mean `openai/gpt-4.1-nano`?"),
        ("acme/llama-3", "unknown model `{}`", SERVED.format("acme/llama-3")),
        ("meta-llama/x?seed=1", "unknown model `{}`", SERVED.format("meta-llama/x")),
        ("llama3.2", "unknown model `{}`", SERVED.format("llama3.2")),
        ("ollama/", "unknown model `{}`", "add the model's name: `ollama/NAME`"),
        ("me:word@host", "unknown model `***@host`", SERVED.format("NAME")),
        ("gpt-oss-20b", "unknown model `{}`", SERVED.format("gpt-oss-20b")),
        ("builtin/random?sed=1", "model `{}` has no parameter `sed`", "did you mean `seed`?"),
        ("builtin/longest?seed=1", "model `{}` has no parameter `seed`", "it has no parameters"),
        ("builtin/random?seed=x", "model `{}`: `seed` is 'x', not a whole number from 0 on", None),
        (
            "builtin/simulated?style=mixt",
            f"model `{{}}`: `style` is 'mixt', not one of {listing(STYLE_NAMES)}",
            "did you mean `mixed`?",
        ),
        (
            "builtin/random?seed",
            "model `{}`: 'seed' is not `parameter=value`",
            "write `NAME?parameter=value&parameter=value`",
        ),
        ("builtin/random?seed=1&seed=2", "model `{}`: a parameter is given more than once", None),
    ],
)
def test_bad_name_is_told(name: str, message: str, hint: str | None) -> None:
    """An unknown model, an unknown parameter and a value out of range are errors with what to
    write.
    """
    error = refuse(name)
    assert (error.code, error.message, error.hint) == ("E301", message.format(name), hint)


def offer(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """Make it seem that a package adds models under `acme/`."""
    points = [EntryPoint("acme", value, "answerkey.models")]
    monkeypatch.setattr(
        model, "entry_points", lambda group: points if group == "answerkey.models" else []
    )


def test_package_that_cannot_be_loaded_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken package is named, not traced."""
    offer(monkeypatch, "no_such_package_here:Model")
    error = refuse("acme/small")
    assert error.code == "E301"
    assert "the package that adds `acme/…` cannot be loaded" in error.message


class PackageOwn:
    """A package's model that fails as it is told, and remembers how it was asked."""

    is_simulated = True
    needs = frozenset({"truth"})

    def __init__(self, name: str) -> None:
        self.name = name
        self.sizes: list[int] = []

    def complete(self, questions: Sequence[Request]) -> list[Completion]:
        """Say the sample's id, unless the name says otherwise."""
        self.sizes.append(len(questions))
        if self.name.endswith("broken"):
            raise RuntimeError("out of memory")
        replies = [
            Completion(f"{question.sample_id} {question.truth} {question.trial}")
            for question in questions
        ]
        return replies[:-1] if self.name.endswith("short") else replies


def open_own(monkeypatch: pytest.MonkeyPatch, name: str, load: Any = PackageOwn) -> Any:  # noqa: ANN401 - a class or a function
    """Return a package's model, with a ledger of its own."""
    offer(monkeypatch, f"{__name__}:load")
    monkeypatch.setattr(EntryPoint, "load", lambda _: load)
    return open_model(f"acme/{name}")


def test_batches_for_a_packages_model_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 1,000 questions at a time.

    Each sample is its own question; nothing known is asked again.
    """
    opened = open_own(monkeypatch, "small")
    assert (opened.is_simulated, opened.needs) == (True, {"truth"})
    questions = [Request(f"s{number}", [], truth="B") for number in range(2_300)]
    replies = opened.complete(questions, trial=2)
    assert opened.model.sizes == [1_000, 1_000, 300]
    assert [reply.text for reply in replies] == [f"s{number} B 2" for number in range(2_300)]
    assert {reply.source for reply in replies} == {"live"}
    new = Request("new", [], truth="A")
    assert opened.complete([*questions, new], trial=2)[-1].text == "new A 2"
    assert opened.model.sizes[3:] == [1]


def test_what_a_packages_model_raises_fails_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its samples have the text of the exception.

    Once 50 calls have failed, it is not asked any more.
    """
    opened = open_own(monkeypatch, "broken")
    replies = opened.complete([Request("1", []), Request("2", [])])
    assert [(reply.status, reply.error) for reply in replies] == [
        (CompletionStatus.ERROR, "RuntimeError: out of memory")
    ] * 2
    with pytest.raises(SolverError, match="the first 60 calls of `acme/broken` all failed"):
        opened.complete([Request(str(number), []) for number in range(60)])


def test_a_packages_model_must_answer_every_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer completions than questions cannot be put in order: E306."""
    with pytest.raises(
        SolverError, match="`acme/short` returned 1 completions for 2 questions"
    ) as caught:
        open_own(monkeypatch, "short").complete([Request("1", []), Request("2", [])])
    assert caught.value.code == "E306"


def test_a_package_may_bring_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the entry point gives for the name may be a function of the messages.

    It is found by its name.
    """
    opened = open_own(
        monkeypatch, "f", lambda name: lambda messages: f"{name}: {messages[0]['content']}"
    )
    assert (opened.name, opened.is_function) == ("acme/f", False)
    (reply,) = opened.complete([Request("1", [{"role": "user", "content": "hi"}])])
    assert reply.text == "acme/f: hi"


def test_missing_parts_are_those_that_only_a_scorer_knows() -> None:
    """Without a scorer's knowledge a baseline lacks choices, the simulator also the truth."""
    assert missing_facts(open_model("builtin/overlap"), None) == {"choices"}
    assert missing_facts(open_model("builtin/simulated"), None) == {"choices", "truth"}
    assert missing_facts(open_model("builtin/constant"), None) == frozenset()
    assert missing_facts(open_model("builtin/random"), SampleFacts([], [], [])) == frozenset()


def test_docs_name_every_model_parameter_and_share() -> None:
    """The reference page lists each built-in model, its parameters and the shares of the mixed
    style.
    """
    page = (Path(__file__).parents[3] / "docs" / "reference" / "models.md").read_text()
    for kind, built in BUILTIN_MODELS.items():
        assert f"`builtin/{kind}`" in page
        assert all(f"`{parameter}`" in page for parameter in built.parameters)
    mixed = page.partition("| `mixed` | ")[2].partition("\n")[0]
    shares = dict(re.findall(r"(\w+)(?: \([^)]*\))? (\d+) %", mixed))
    assert {name: int(share) for name, share in shares.items()} == MIXED_SHARES


KEY = "sk-canary-0123456789"
OK, REFUSED, NO_TEXT, ERROR = CompletionStatus


def ask(*texts: str) -> list[Request]:
    """Return questions of one user message each."""
    return [Request(str(i), [{"role": "user", "content": text}]) for i, text in enumerate(texts)]


def open_live(name: str, **environment: str) -> LiveModel:
    """Return a live model, which the test closes."""
    model = open_model(name, caller=Caller(environment))
    assert isinstance(model, LiveModel)
    return model


@pytest.mark.parametrize(
    ("name", "variable", "path"),
    [
        ("openai/m", "OPENAI", "/v1/chat/completions"),
        ("openai/m?api=completions", "OPENAI", "/v1/completions"),
        ("anthropic/m", "ANTHROPIC", "/v1/messages"),
        ("gemini/m", "GEMINI", "/v1beta/models/m:generateContent"),
        ("azure/m", "AZURE", "/openai/v1/chat/completions"),
    ],
)
def test_every_api_is_spoken(name: str, variable: str, path: str) -> None:
    """Each API is asked under its path, with the key in its header, and its answer is read."""
    with TestServer("B") as server:
        environment = {f"{variable}_BASE_URL": server.root, f"{variable}_API_KEY": KEY}
        with open_live(name, **environment) as model:
            (completion,) = model.complete(ask("A or B?"))
        assert (completion.text, completion.status) == ("B", OK)
        assert list(server.asked.by_path) == [path]
        assert [key.removeprefix("Bearer ") for key in server.asked.keys] == [KEY]


def test_what_is_known_is_not_asked() -> None:
    """A bound model looks into its ledger first.

    Trials are questions of their own, counted on top.
    """
    events: list[Event] = []
    with TestServer("B") as server, open_live(f"{server.url}#m") as unbound:
        ledger = MemoryLedger()
        for _ in range(2):
            with replace(unbound, ledger=ledger, watch=events.append) as model:
                model.complete(ask("q"))
        assert server.asked.total == 1
        with replace(unbound, ledger=ledger) as model:
            (question,) = ask("q")
            model.complete([question, replace(question, trial=1), replace(question, trial=1)])
            model.complete([question], trial=1)
        assert server.asked.total == 2
    assert list(map(type, events)) == [Finished, Reused]


def test_a_missing_key_stops_before_anything_is_asked() -> None:
    """A provider is not asked without its key."""
    model = LiveModel(connect(ModelConfig("openai/m", ProviderConfig("openai", "m"))))
    for action in (model.require_ready, lambda: model.complete(ask("q"))):
        with pytest.raises(SpecError, match=r"^error\[E117\]"):
            action()


def open_snippet(source: str, **environment: str) -> SnippetModel:
    """Return a model that is a snippet."""
    secrets = {name: Secret(text) for name, text in environment.items()}
    model = open_model(ModelConfig("own", InferenceConfig(Snippet("infer", source), secrets)))
    assert isinstance(model, SnippetModel)
    return model


def test_a_snippet_answers() -> None:
    """`infer` gets the messages and gives a text, a message or a chat completion."""
    source = (
        "def infer(messages):\n"
        "    text = messages[-1]['content']\n"
        "    if text == 'refuse':\n"
        "        return {'role': 'assistant', 'content': None, 'refusal': 'no'}\n"
        "    if text == 'whole':\n"
        "        return {'choices': [{'message': {'content': 'W'}, 'finish_reason': 'length'}]}\n"
        "    return None if text == 'nothing' else text.upper()\n"
    )
    model = open_snippet(source)
    result = model.complete(ask("a", "refuse", "whole", "nothing", "a"))
    model.close()
    assert [(reply.text, reply.status) for reply in result] == [
        ("A", OK),
        (None, REFUSED),
        ("W", OK),
        (None, ERROR),
        ("A", OK),
    ]
    assert result[3].error == "`infer` returned None, not a text or a message"
    assert result[2].finish_reason == "length"


def test_a_snippet_that_fails_on_a_sample_fails_there_alone() -> None:
    """What a snippet raises is the ERROR of that call.

    The environment that it was given is hidden.
    """
    source = (
        "def infer(messages, environment):\n"
        "    if messages[0]['content'] == 'bad':\n"
        "        raise ValueError('with ' + environment['WHERE'])\n"
        "    return ['no', {}] if messages[0]['content'] == 'odd' else 'B'\n"
    )
    model = open_snippet(source, WHERE="hush-canary")
    result = model.complete(ask("good", "bad", "odd", "fine"))
    model.close()
    assert [reply.status for reply in result] == [OK, ERROR, ERROR, OK]
    assert "ValueError: with ***" in str(result[1].error)
    assert "canary" not in repr([*result, model])


def test_a_key_that_a_snippet_says_is_hidden_and_its_other_values_are_not() -> None:
    """Only what is named like a secret, and long enough to be one, is taken out of an answer."""
    source = (
        "def infer(messages, environment):\n"
        "    text = ' '.join(environment.values())\n"
        "    return text if messages[0]['content'] == 'plain' else {'role': "
        "'assistant', 'content': [\n"
        "        {'type': 'text', 'text': text}]}\n"
    )
    model = open_snippet(source, MY_API_KEY="sk-canary-1", MODEL="large", MY_AUTH_KEY="A")
    result = model.complete(ask("plain", "message"))
    model.close()
    assert [reply.text for reply in result] == ["*** large A"] * 2
    assert "canary" not in repr(result)


def test_a_snippet_that_cannot_be_loaded_stops_everything() -> None:
    """A snippet that fails while it is loaded is E306."""
    model = open_snippet("raise OSError('no weights')\ndef infer(messages): return 'A'")
    with pytest.raises(SolverError) as caught:
        model.complete(ask("q"))
    assert caught.value.code == "E306"
    assert "no weights" in caught.value.message


def test_answers_of_a_snippet_are_kept() -> None:
    """A bound model looks into its ledger first; its budget counts what was asked."""
    events: list[Event] = []
    ledger, budget = MemoryLedger(), Budget(max_calls=2)
    snippet = open_snippet("def infer(messages): return 'B'")
    model = replace(snippet, ledger=ledger, budget=budget, watch=events.append)
    model.complete(ask("q", "q", "r"))
    model.complete(ask("q"))
    with pytest.raises(SolverError) as caught:
        model.complete(ask("s"))
    model.close()
    assert caught.value.code == "E305"
    assert len(ledger.kept) == 2
    assert list(map(type, events)) == [Finished, Finished, Reused, Reused]


def test_another_snippet_is_another_model() -> None:
    """The identity is that of the text that runs."""
    first, second = (open_snippet(f"def infer(messages): return '{text}'") for text in "AB")
    again = open_snippet("def infer(messages): return 'A'")
    assert first.identity == again.identity != second.identity
