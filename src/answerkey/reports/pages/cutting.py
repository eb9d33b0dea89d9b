"""Long texts cut to what a page can show, with a sentence that says so."""

from __future__ import annotations

from dataclasses import dataclass

#: Longer texts are cut; of a completion the end stays, too, for that is where answers stand.
MOST_CHARACTERS = 20_000
COMPLETION_BEGIN, COMPLETION_END = 40_000, 20_000

Span = tuple[int, int]


def cut(text: str | None) -> str | None:
    """Return the text, or its beginning and how long the whole is."""
    if text is None or len(text) <= MOST_CHARACTERS:
        return text
    return f"{text[:MOST_CHARACTERS]}\n[cut: the first {MOST_CHARACTERS:,} of {len(text):,} characters]"


@dataclass(frozen=True)
class CutText:
    """A text without its middle, if that is long; `begin` and `end` are what was left out of the whole."""

    text: str | None
    begin: int = 0
    end: int = 0
    mark: str = ""

    def move(self, span: Span | None) -> Span | None:
        """Return where a passage of the whole text stands in this one; None if it was left out."""
        if span is None or self.begin == self.end or span[1] <= self.begin:
            return span
        shift = self.begin + len(self.mark) - self.end
        return None if span[0] < self.end else (span[0] + shift, span[1] + shift)


def cut_middle(text: str | None) -> CutText:
    """Return the text without its middle, where it is too long to be shown whole."""
    if text is None or len(text) <= COMPLETION_BEGIN + COMPLETION_END:
        return CutText(text)
    end = len(text) - COMPLETION_END
    left = end - COMPLETION_BEGIN
    mark = f"\n[cut: {left:,} of {len(text):,} characters are left out here]\n"
    return CutText(f"{text[:COMPLETION_BEGIN]}{mark}{text[end:]}", COMPLETION_BEGIN, end, mark)
