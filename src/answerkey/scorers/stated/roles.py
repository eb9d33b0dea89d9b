"""The parts that words play in stating an answer, as bits: a word may play several."""

from __future__ import annotations

#: `answer`, and in languages that need nothing between it and the label, BARE as well.
ANSWER = 1 << 0
BARE = 1 << 1
OPTION = 1 << 2
#: `is`, `must be`; `might be` and `probably` are MAYBE.
BE = 1 << 3
MAYBE = 1 << 4
#: Words that change nothing between a cue and its label: articles, `clearly`, `following`.
FILL = 1 << 5
RIGHT = 1 << 6
WRONG = 1 << 7
NOT = 1 << 8
#: A negation that follows what it negates: `B가 아닙니다`, `B değil`.
NOT_AFTER = 1 << 9
PICK = 1 << 10
THINK = 1 << 11
SO = 1 << 12
IT = 1 << 13
OR = 1 << 14
AND = 1 << 15
IF = 1 << 16
#: Somebody else's opinion, or an earlier one: `many would say`, `at first`.
SAYS = 1 << 17
#: What comes replaces what was said; UNDO takes it back even if nothing comes.
FIX = 1 << 18
UNDO = 1 << 19
#: Words that may follow a label and cannot follow an article: `because`, `which`.
AFTER = 1 << 20
#: `to`, `for`, `of`: more words may stand between `answer` and `is`.
PREP = 1 << 21
LEAVE = 1 << 22
DROP = 1 << 23
MATCH = 1 << 24
NONE = 1 << 25
YES = 1 << 26
BUT = 1 << 27
QUESTION = 1 << 28
REFUSE = 1 << 29
#: `my`, `final`, `only`: makes an option word a cue (`my choice is`).
OWN = 1 << 30
#: A correction that names no new answer itself: `that is wrong`.
MUTE = 1 << 31
#: Endings that touch a label: `나입니다`, `B'dir`.
ENDING = 1 << 32

NAMES: dict[str, int] = {
    name: value for name, value in globals().items() if name.isupper() and isinstance(value, int)
}
