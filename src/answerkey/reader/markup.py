r"""Markup of a reply: thoughts and turns divide it; tags, boxes and check boxes mark its answer."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from answerkey.reader.characters import WHITE_SPACE
from answerkey.reader.lexicon import (
    ANSWER,
    BREAK,
    COLONS,
    DASHES,
    MAYBE,
    OPERATORS,
    OPTION,
    WRAPPING,
    list_names,
    load_lexicon,
    normalize_word,
    split_tokens,
)
from answerkey.reader.names import Named, read_names
from answerkey.reader.statements import Findings, Weight, follow
from answerkey.reader.units import Units

# Thoughts, channels and turns of a conversation: where in the raw text the answer may be.

#: Where a passage begins and ends.
_Span = tuple[int, int]
_THOUGHTS = (
    "think|thinking|thoughts?|reasoning|reflection|scratchpad|analysis|seed:think|longcat_think"
)
#: The opening of a thought, as a pattern with the same meaning in Python and RE2.
_OPENING = (
    rf"<(?:{_THOUGHTS})\s?>|\[think(?:ing)?\]|<\|(?:start_)?think(?:ing)?\|>"
    "|\u25c1think\u25b7|<unused94>|<[|]inner_prefix[|]>"
)

#: The tokens that frame the parts of a reply, as models and chat templates write them.
_FRAME = re.compile(
    rf"""(?P<open> {_OPENING} | <\|channel>\s{{0,4}}thought )
    | (?P<close> </(?:{_THOUGHTS})> | \[/think(?:ing)?\] | \u25c1/think\u25b7 | <unused95>
        | <\|(?:end_|/)think(?:ing)?\|> | <\|inner_suffix\|> | <channel\|> )
    | <\|channel\|>\s{{0,4}}(?P<channel>\w{{1,20}})
      [^<>|]{{0,200}}(?:<\|constrain\|>[^<>|]{{0,40}})?<\|message\|>
    | (?P<turn> <[|\uff5c](?!(?:begin|end)_of_box)(?P<name>[^<>|\uff5c\n]{{1,40}})[|\uff5c]>
        | <\|\w{{1,20}}> | <\w{{1,20}}\|> | </s> | \A\s{{0,4}}<s> | <(?:[be]os|pad)> | <(?:start|end)_of_turn>
        | (?P<inst>\[inst\]) | \[/inst\] )
      (?:\s{{0,2}}(?P<role>assistant|model|user|system|developer|tool)\b)?""",  # noqa: E501 - the text as it is written
    re.IGNORECASE | re.VERBOSE,
)
#: How each of these tokens begins.
_FRAME_BEGIN = re.compile(r"<[|\uff5c/]|<[\w:]{1,20}\s?[>|]|\[/?[^\W\d]{4,8}\]|\u25c1")
_OTHERS = frozenset({"user", "system", "developer", "tool"})
_TURN_ENDS = frozenset({"end", "return", "call", "message", "end_header_id"})

#: A thought and an answer when the tokens of the channels were taken out of the text.
_FINAL = "assistantfinal"
_TAGLESS_THOUGHT = re.compile("(?:assistant)?(?:analysis|commentary)(?=[A-Z\"'])")
_TAGLESS_CHANNEL = re.compile("assistant(?:analysis|commentary|final)")

_BLANKS = f"[{re.escape(WHITE_SPACE)}]*"
#: The beginning of a text that begins with a thought, also with the same meaning in RE2.
THOUGHT_BEGIN = (
    rf"^{_BLANKS}(?:(?i:<\|im_start\|>assistant){_BLANKS})?(?:(?i:{_OPENING}|<\|channel>"
    r"|(?:<\|start\|>assistant)?<\|channel\|>)|(?:assistant)?(?:analysis|commentary)[A-Z\"'])"
)


@dataclass(slots=True)
class _Frames:
    """The passages of a text: what each turn says, and the thoughts.

    `open_at` is the position of the token that opened a thought which is not closed yet.
    """

    turns: list[list[_Span]] = field(default_factory=lambda: [[]])
    thoughts: list[_Span] = field(default_factory=list)
    open_at: int | None = None
    is_read: bool = True

    def add(self, begin: int, end: int) -> None:
        """Note a passage between two tokens."""
        if self.open_at is not None:
            self.thoughts.append((begin, end))
        elif self.is_read:
            self.turns[-1].append((begin, end))

    def read(self, token: re.Match[str]) -> None:
        """Note what a token opens or closes."""
        if token["open"]:
            self.open_at = token.start()
        elif not token["close"]:
            self.turn(token)
        elif self.open_at is None:  # the prompt has opened it
            self.thoughts += self.turns[-1]
            self.turns[-1].clear()
        else:
            self.open_at = None

    def turn(self, token: re.Match[str]) -> None:
        """Begin the turn, or the channel of a turn, that a token opens."""
        self.turns.append([])
        if token["channel"]:
            self.is_read = True
            self.open_at = None if token["channel"].lower() == "final" else token.start()
            return
        role = (token["role"] or token["name"] or "").lower()
        if role != "end_header_id":
            self.is_read = role not in _OTHERS and not token["inst"]
        if role in _TURN_ENDS:
            self.open_at = None


def _read_frames(text: str) -> _Frames | None:
    """Return the passages of a text; None if it has neither thoughts nor turns."""
    bare = _TAGLESS_THOUGHT.match(text)
    if bare or _FINAL in text:
        return _read_tagless_channels(text, bare.end() if bare else 0)
    if not _may_have_frames(text):
        return None
    frames = _Frames()
    begin = 0
    for token in _FRAME.finditer(text):
        if token["open"] and frames.open_at is not None:
            continue
        frames.add(begin, token.start())
        begin = token.end()
        frames.read(token)
    frames.add(begin, len(text))
    return frames


def _may_have_frames(text: str) -> bool:
    is_possible = "<" in text or "[" in text or "\u25c1" in text
    return is_possible and _FRAME_BEGIN.search(text) is not None


def _read_tagless_channels(text: str, begin: int) -> _Frames:
    """Return the passages of a text whose channels have lost their tokens."""
    final = text.find(_FINAL)
    if final < 0:
        return _Frames(thoughts=[(begin, len(text))], open_at=0)
    first = final + len(_FINAL)
    channel = _TAGLESS_CHANNEL.search(text, first)
    end = channel.start() if channel else len(text)
    return _Frames([[(first, end)]], [(begin, final)])


def find_parts(text: str) -> list[_Span] | None:
    """Return the parts of a text that may state its answer, the first to be read first.

    None when its thought is never closed. Text before a thought is read after the text that
    follows it.
    """
    frames = _read_frames(text)
    if frames is None:
        return [(0, len(text))]
    parts = []
    for turn in frames.turns:
        for begin, end in reversed(turn):
            if text[begin:end].strip():
                parts.append((begin, end))
    if not parts and frames.open_at is not None:
        return None
    return parts


def find_thoughts(text: str) -> list[_Span]:
    """Return the passages that cannot state the answer, with the white space after them.

    These are thoughts with their tokens, and turns of others.
    """
    thoughts = []
    end = 0
    parts = sorted(find_parts(text) or ())
    for begin, part_end in [*parts, (len(text), len(text))]:
        if text[end:begin].strip():
            part = text[begin:part_end].lstrip()
            thoughts.append((end, part_end - len(part)))
        end = max(end, part_end)
    return thoughts


def is_thought(text: str) -> bool:
    """Return whether a text consists of a thought only."""
    parts = split_thoughts(text)
    return parts is not None and not parts[1]


def split_thoughts(text: str) -> tuple[str, str] | None:
    """Return the thoughts of a text, and the text of its first turn; None without thoughts.

    A thought stands between its tokens, or before a closing one whose opening one was in the
    prompt. One that is never closed takes the rest of the text, unless text precedes it.
    White space before the answer is left out.
    """
    text = text.lstrip(WHITE_SPACE)
    frames = _read_frames(text)
    if frames is None:
        return None
    answer = _join_first_turn(text, frames)
    thoughts = frames.thoughts
    if frames.open_at is not None and answer:
        # The text only mentions this token, so it opens no thought.
        thoughts = [thought for thought in thoughts if thought[0] < frames.open_at]
        answer += text[frames.open_at :]
    if not thoughts:
        return None
    passages = [text[begin:end].strip() for begin, end in thoughts]
    return "\n".join(filter(None, passages)), answer.lstrip(WHITE_SPACE)


def _join_first_turn(text: str, frames: _Frames) -> str:
    """Return the text of the first turn that is not empty."""
    for turn in frames.turns:
        answer = "".join(text[begin:end] for begin, end in turn)
        if answer.strip(WHITE_SPACE):
            return answer
    return ""


# Tags, LaTeX spaces and check boxes, spelled as the reader knows them, at the same length.

#: What opens and closes an answer, in place of a tag.
OPEN_ANSWER, CLOSE_ANSWER = "\x02", "\x03"
CHECKED, UNCHECKED = "\u2611", "\u2610"

_BOX_TOKENS = {"<|begin_of_box|>": OPEN_ANSWER, "<|end_of_box|>": CLOSE_ANSWER}
_TAG = re.compile(r"<(/?)([^\W\d_][\w:.\-]{0,40})((?:\s[^<>\n]{0,200})?)/?>")
_NAME_ENDS = re.compile(r"[_:.\-]|(?<=[a-z])(?=[A-Z])")
_ANSWER_NAMES = frozenset({"final", "output", "result", "selected", "ans"})
_EMPHASIS = "*"
_BLOCKS = list_names(
    "br div details summary li ul ol tr table center hr blockquote section pre h1 h2 h3 h4 h5 h6"
)
_INLINE = list_names("kbd code span font tt small big samp ins var")
#: The marks that stand in for tags.
_MARKS = dict.fromkeys(_BLOCKS, BREAK) | dict.fromkeys(_INLINE, _EMPHASIS) | {"td": "|", "th": "|"}

#: The keys of a JSON object or a Python dict, and strings after them.
_KEY = re.compile(r"""(["'])([^\W\d][\w \-]{1,40})\1\s{0,4}:""")
_ANY_KEY = re.compile(r"""["']\s{0,4}:""")
_LABEL_VALUE = re.compile(r"""\s{0,4}["'][^"'\s]{1,3}["']""")
_MOST_KEYS = 2
_JUDGED_KEY = re.compile(
    r"""(["'])\s{0,4},\s{0,20}["'](?:is_?)?(?:correct|right|true|valid)["']\s{0,4}:""",
    re.IGNORECASE,
)
_THOUGHT_VALUE = re.compile(
    r"""(?<=")(?:thoughts?|thinking|reasoning|analysis|rationale|scratchpad)"\s{0,4}:\s{0,4}"(?:[^"\\]|\\.){0,20000}(?=")""",
    re.IGNORECASE | re.DOTALL,
)
_SIGN_FORM = re.compile("(?<=[\u2611\u2612\u2713-\u2718\u274c])\ufe0f")
_LATEX_SPACE = re.compile(r"\\(?:[ ,;:!]|q?quad(?![A-Za-z]))")
_STRUCK_OUT = re.compile("~~[^~\\n]{1,200}~~")
_CHECK_BOXES = ("[x]", "[X]", "[ ]", "[\u2713]")
_CHECK_BOX = re.compile(
    r"^([ \t>*+\-\u2022]{0,12}(?:\d{1,2}[.)] )?)([\[(])(\s?)([xX\u2713\u2714]?)\s?[\])](?=\s)",
    re.MULTILINE,
)


def simplify(text: str) -> str:
    """Return a text of the same length with tags, LaTeX spaces and check boxes in one spelling."""
    if "\\" in text:
        text = _LATEX_SPACE.sub(_blank, text)
    if "~~" in text:
        text = _STRUCK_OUT.sub(_blank, text)
    if "<" in text:
        for token, mark in _BOX_TOKENS.items():
            text = text.replace(token, mark.ljust(len(token)))
        text = _TAG.sub(_simplify_tag, text)
    if not text.isascii():
        text = _SIGN_FORM.sub(" ", text).replace("\uff1d\uff1e", "=>")
    if "{" in text and _ANY_KEY.search(text) is not None:
        text = _simplify_keys(text)
    if "(x)" in text or ("[" in text and any(map(text.__contains__, _CHECK_BOXES))):
        text = _CHECK_BOX.sub(_simplify_check_box, text)
    return text


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _simplify_keys(text: str) -> str:
    """Return a text whose keys that name the answer are `ans`, and whose thoughts are blank.

    `{"option": "A", "correct": false}` becomes `{"A": false}`.
    """
    text = _JUDGED_KEY.sub(lambda match: f"{match[1]}:".ljust(len(match[0])), text)
    keys = _find_answer_keys(text)
    names = {key[2] for key in keys}
    if len(names) < len(keys) or not 0 < len(keys) <= _MOST_KEYS:
        return text
    for key in keys:
        begin, end = key.span()
        if len(key[2]) >= len("ans"):
            text = f"{text[:begin]}{key[1]}ans{key[1]}:".ljust(end) + text[end:]
    return _THOUGHT_VALUE.sub(_blank, text)


def _find_answer_keys(text: str) -> list[re.Match[str]]:
    """Return the keys that name the answer: of several, those that a label alone follows."""
    keys = [key for key in _KEY.finditer(text) if is_answer_name(key[2])]
    if len(keys) == 1:
        return keys
    labelled = [key for key in keys if _LABEL_VALUE.match(text, key.end())]
    return [key for key in labelled if key[2] != "alternative"]


def _simplify_tag(match: re.Match[str]) -> str:
    """Return the mark that stands in for a tag, and spaces; most tags stay as they are."""
    tag, slash, name, attributes = match.group(0, 1, 2, 3)
    size = len(tag)
    mark = _MARKS.get(name.lower(), "")
    if attributes and name in {"a", "A"}:
        mark = _EMPHASIS
    if mark == _EMPHASIS and not slash:
        return mark.rjust(size)
    if mark:
        return mark.ljust(size)
    if is_answer_name(name):
        return (CLOSE_ANSWER if slash else OPEN_ANSWER).ljust(size)
    return f"({name})" if _is_label(match) else tag


def _is_label(tag: re.Match[str]) -> bool:
    """Say whether a tag that is never closed is a label: `<B>`."""
    name = tag[2]
    is_letter = len(tag[0]) == len("<B>") and name.isupper()
    return is_letter and f"</{name}>" not in tag.string


def is_answer_name(name: str) -> bool:
    """Say whether a tag or a key names the answer: `final_answer`, `correctOption`; `options` does
    not.
    """
    return any(map(_names_answer, _NAME_ENDS.split(name)))


def _names_answer(name: str) -> bool:
    words = list(map(normalize_word, split_tokens(name)))
    if not _ANSWER_NAMES.isdisjoint(words):
        return True
    roles = load_lexicon().find_roles(words) if words else 0
    return bool(roles & (ANSWER | OPTION)) and not roles & MAYBE


def _simplify_check_box(match: re.Match[str]) -> str:
    box, lead, bracket, space, tick = match.group(0, 1, 2, 3, 4)
    if bracket == "(" and not space and not tick:
        return box
    sign = CHECKED if tick else UNCHECKED
    return (" " * len(lead) + sign).ljust(len(box))


# Answers in markup: `\boxed{B}`, `<answer>B</answer>`, `[[B]]`.

_MARKUP_REACH = 40
#: Brackets after a label that are read with it, though they close the markup.
_CLOSERS = 3
BOXES = frozenset({"\\boxed", "\\fbox", "\\framebox", "\\box", "oxed"})
_FORMULA = OPERATORS | DASHES | COLONS | {"_", "<", ">", "'"}
MARKUP = BOXES | {OPEN_ANSWER, "["}


def read_markup(units: Units, at: int, findings: Findings) -> None:
    """Note what the markup at `at` states."""
    words = units.words
    word = words[at]
    if word == OPEN_ANSWER:
        end = _find_close(units, at + 1, OPEN_ANSWER, CLOSE_ANSWER)
        target = _follow_markup(units, at, end)
        if target is not None:
            findings.state(target, "answer_tag", Weight.DEFINITE, at)
    elif word in BOXES:
        _read_box(units, at, findings)
    elif words[at : at + 2] == ["[", "["]:
        names = read_names(units, at)
        if names is not None and words[names.end - 2 : names.end] == ["]", "]"]:
            findings.state(names, "double_brackets", Weight.DEFINITE, at)


def _find_close(units: Units, at: int, opening: str, closing: str) -> int:
    """Return where the markup is closed, or how far it is read if it is not."""
    depth = int(opening != "{")
    end = min(at + _MARKUP_REACH, units.size)
    for further in range(at, end):
        word = units.words[further]
        depth += (word == opening) - (word == closing)
        if word == closing and depth <= 0:
            return further
    return end


def _follow_markup(units: Units, at: int, end: int) -> Named | None:
    """Return what is named between the markup and its end."""
    target = follow(units, at + 1, is_linked=True)
    if target is None or target.is_negated:
        return None
    if target.end > end + _CLOSERS and len(target.choices) == 1:
        return None
    return target


def _read_box(units: Units, at: int, findings: Findings) -> None:
    """Note what a box states, unless its label is part of a formula."""
    end = _find_close(units, at + 1, "{", "}")
    target = _follow_markup(units, at, end)
    if target is None:
        return
    has_text = any(at < place < end for place in units.options)
    if target.choices and not has_text:
        if _is_formula(units.words[at + 1 : end]):
            return
        # `A \\text{ and } C`
        labels = filter(None, units.labels[at + 1 : end])
        target.choices = tuple(dict.fromkeys([*target.choices, *labels]))
    findings.state(target, "boxed", Weight.DEFINITE, at)


def _is_formula(words: list[str]) -> bool:
    """Say whether the words in a box are more than labels: a formula, a variable with a prime."""
    bare = [word for word in words if word not in WRAPPING]
    if bare[1:2] == ["."]:
        return False  # `D. 2.4 \\times 10^6`
    return not _FORMULA.isdisjoint(bare) or any(word[:1] == "\\" for word in bare)
