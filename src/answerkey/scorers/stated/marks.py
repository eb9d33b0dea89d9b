"""The marks around and between labels: dress, brackets, links, joints, ends of sentences."""

from __future__ import annotations

_EMPHASIS = {sign * count for sign in "*_`" for count in range(1, 5)} | {"~~"}
_QUOTES = set("\"'\u00ab\u00bb\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u2039\u203a")
_QUOTES |= set("\u300c\u300d\u300e\u300f")
_STYLES = ("text", "textbf", "textit", "textrm", "textsf", "texttt", "emph", "underline", "operatorname")
_FONTS = ("mathbf", "mathrm", "mathit", "mathsf", "mathtt", "bf", "rm", "displaystyle", "large", "huge")
_BOXES = ("boxed", "fbox", "framebox")
_LATEX = {f"\\{name}" for name in (*_STYLES, *_FONTS, *_BOXES, *"()[]{}")} | {"$", "$$"}
_HTML = {f"<{slash}{name}>" for name in ("b", "strong", "i", "em", "u", "p", "mark") for slash in ("", "/")}
_BRACKETS_OPEN = set("([{\u3008\u300a\u3010\u3014\u3016\u3018\uff08\uff3b\uff5b\u27e8")
_BRACKETS_CLOSE = set(")]}\u3009\u300b\u3011\u3015\u3017\u3019\uff09\uff3d\uff5d\u27e9")

#: What carries no meaning in any place: emphasis, quotes, LaTeX and HTML.
DRESS = frozenset(_EMPHASIS | _QUOTES | _LATEX | _HTML)
OPEN = DRESS | _BRACKETS_OPEN
CLOSE = DRESS | _BRACKETS_CLOSE
WRAPPING = OPEN | CLOSE
MATHEMATICS = frozenset({"$", "$$", "\\(", "\\["})
ROUND_OPEN = frozenset("(\uff08")
ROUND_CLOSE = frozenset(")\uff09")

COLONS = frozenset(":\uff1a\ufe55")
HYPHENS = frozenset("-\u2010\u2011\uff0d")
DASHES = HYPHENS | {"--", "---", "\u2012", "\u2013", "\u2014", "\u2015", "\u2212"}
ARROWS = frozenset({"->", "-->", "=>", "==>", *"\u2192\u21d2\u27a1\u27f9\u2794\u27a4", "\u27a1\ufe0f"})
EQUALS = frozenset({"=", "==", "\uff1d"})
LINKS = COLONS | DASHES | ARROWS | EQUALS
COMMAS = frozenset(",\uff0c\u060c\u3001")
JOINTS = COMMAS | frozenset("/&+;\u037e\uff0f\uff06\uff1b\u061b")
STOPS = frozenset(".!?;\u3002\uff01\uff1f\u0964\u061f\u2026\u06d4\uff0e\uff1b\u061b\u037e")
QUESTION_MARKS = frozenset("?\uff1f\u061f")

#: Marks that a label carries in a list, and what a line may begin with.
LABEL_MARKS = frozenset(".):,-]\uff0e\uff09\uff1a\u3001\uff0c\u2013\u2014")
BULLETS = ARROWS | {"-", "*", "+", ">", *("#" * count for count in range(1, 7))}
BULLETS |= frozenset("\u2022\u25cf\u25a0\u25aa\u00b7\u2023\u25ba\U0001f449")

#: Directly after a label these make it something else: `C++`, `A^2`, `4%`; after a number they go on with it.
SPOILING = frozenset("+#^%=\\\u00b0\u00b2\u00b3\u20ac\u00a3")
OPERATORS = frozenset({*"+-*/=&^%\u00d7\u00f7\u2212\u00b7", "\\times", "\\cdot", "\\%"})
