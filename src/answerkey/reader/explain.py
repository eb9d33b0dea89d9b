"""Why a rule decided as it did: its parts, its reasons, the sentence that explains a reading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from answerkey.reader.characters import compose, find_first_label

#: What each part of a rule finds, by rule; a reading without a part found nothing.
PARTS: dict[str, dict[str, str]] = {
    "leading_label": {
        "as_it_is": "the text begins with it",
        "unwrapped": "the text begins with it, after brackets, quotes, emphasis or other marks",
        "after_label": "it follows a label such as `Answer:`",
    },
    "stated_answer": {
        "answer_cue": "words for the answer lead to it",
        "boxed": "it is in a LaTeX box",
        "answer_tag": "it is in a tag for answers",
        "double_brackets": "it is in double brackets",
        "chosen": "it is what the text chooses",
        "correction": "it corrects what was said before",
        "named_right": "it is called right, or the answer",
        "label_line": "it stands on a line of its own",
        "first_label": "it opens the text as a label",
        "last_label": "it opens the last line as a label",
        "after_colon": "it opens the line after a verb and a colon",
        "marked_option": "it is the only one marked in a list of the options",
        "verdict_list": "it is the one called right where every option is judged",
        "conclusion": "it is what the text concludes with",
        "remaining": "the text says that only it remains",
        "reference": "the text says that its result corresponds to it",
        "elimination": "all others are excluded",
        "option_text": "the full text of its option is stated",
        "unclosed_thought": "the text ends within a thought that is never closed",
    },
    "pattern": {},
}

#: The reasons that only these rules give, and when.
PART_REASONS: dict[str, str] = {
    "NOTHING_STATED": "the text states no answer, or takes it back; or the pattern matches nowhere",
    "CONTRADICTS_ITSELF": "a label goes with the full text of another option",
    "DECLINED": "the text declines to answer, or says that no option is right",
}

#: What speaks against a choice that is named: doubted readings, and, last, weak ones.
DOUBTS: dict[str, str] = {
    "quoted": "it is quoted from somebody else",
    "taken_back": "later words take it back",
    "other_statement": "another choice is stated as well, and neither replaces the other",
    "other_text": "the text of another option goes with it",
    "other_choice": "a further choice is named beside it or supported after it",
    "denied": "it is denied after it was stated",
    "only_named": "it is named, but nothing states it",
}

_LEADING = {
    "NOT_A_CHOICE": "after its wrapping the text begins with {passage}, "
    "none of the choices {choices}",
    "SEVERAL_CHOICES": "the text begins with {passage}, joined to another of the choices {choices}",
    "PART_OF_A_WORD": "{passage} is only the beginning of a longer word or number",
    "RUNS_INTO_TEXT": "{passage} runs into the words after it: nothing sets it off",
    "ECHOES_CHOICES": "the text begins with {passage} and then lists the other choices alike",
}
_STATED = {
    "NOT_A_CHOICE": "what is stated, {passage}, is not one of the choices {choices}",
    "SEVERAL_CHOICES": "several answers are stated, and none replaces the "
    "others; the last is {passage}",
    "CONTRADICTS_ITSELF": "in {passage} the label and the text belong to different options",
    "NOTHING_STATED": "the text states no answer",
    "DECLINED": "the text declines to answer",
}
_PATTERN = {
    "NOT_A_CHOICE": "the group of the pattern, matched in {passage}, is not one of the choices "
    "{choices}",
    "NOTHING_STATED": "the pattern matches nowhere in the text",
}
_WHY = {"leading_label": _LEADING, "stated_answer": _STATED, "pattern": _PATTERN}

_LONGEST_PASSAGE = 100
_SHOWN = 80

#: Why a completion is INVALID, in the order in which the reasons are tried; `{c}` is its first
#: character.
REASONS: dict[str, str] = {
    "REFUSED": "the provider marked the reply as a refusal, which answers nothing",
    "NO_TEXT": "there is a reply, but no text in it",
    "EMPTY": "the text is empty or only white space",
    "TRUNCATED_THINKING": (
        "the reply ends within its thoughts, and no text follows them: raise the token "
        "limit (`max_tokens`)"
    ),
    "NOT_A_CHOICE": "the first character, {c!r}, is not one of the choices {choices}",
    "SEVERAL_CHOICES": "the completion begins with {c!r} joined to another "
    "of the choices {choices}",
    "PART_OF_A_WORD": "{c!r} is only the beginning of a longer word or number",
    "RUNS_INTO_TEXT": "{c!r} runs into the words after it: nothing sets it off",
    "ECHOES_CHOICES": (
        "the completion begins with {c!r} and then lists the other choices alike: it "
        "repeats the options"
    ),
}


def explain_reading(text: str, choices: Sequence[str], metadata: Mapping[str, Any]) -> str:
    """Return, in one sentence, what a rule decided, and where; `metadata` is that of a `Score`."""
    rule, _, part = str(metadata["extraction_rule"]).partition("/")
    predicted, truth = metadata["predicted_choice"], metadata["ground_truth_choice"]
    has_parts = "answer_span" in metadata
    passage = _quote(text, metadata["answer_span"]) if has_parts else ""
    if predicted is not None:
        relation = f"{'is' if predicted == truth else 'is not'} the ground truth {truth!r}"
        if has_parts:
            how = PARTS[rule].get(part, "the first match of the pattern names it")
            return (
                f"VALID: {predicted!r}, by {passage}: {how}; it {relation}{_name_doubt(metadata)}"
            )
        return f"VALID: the completion begins with {predicted!r}, which {relation}"
    reason, names = str(metadata["validity_reason"]), shorten(list(choices))
    if has_parts and reason in _WHY[rule]:
        why, more = _WHY[rule][reason].format(passage=passage, choices=names), ""
        if part == "unclosed_thought":
            more = f": {PARTS[rule][part]}"
        return f"INVALID: {why}{more}{_name_doubt(metadata)}"
    first = text[:1]
    if rule != "first_character_literal":
        begin, end = find_first_label(text)
        first = compose(text[begin:end])
    return f"INVALID: {REASONS[reason].format(c=first, choices=names)}"


def _name_doubt(metadata: Mapping[str, Any]) -> str:
    """Return what speaks against a choice that is named, as the end of a sentence."""
    if metadata.get("doubt") is None:
        return ""
    return f"; {metadata['doubted_choice']!r} is doubted: {DOUBTS[metadata['doubt']]}"


def shorten(value: object) -> str:
    """Return a value as an error shows it, cut when long."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _quote(text: str, span: Sequence[int] | None) -> str:
    """Return the passage that decided, and its position in the text in characters."""
    if span is None:
        return "nothing"
    begin, end = span
    passage = text[begin:end]
    if len(passage) > _LONGEST_PASSAGE:
        passage = f"{passage[:_LONGEST_PASSAGE]}…"
    place = f"character {end}" if end - begin == 1 else f"characters {begin + 1} to {end}"
    return f"{passage!r} ({place})"
