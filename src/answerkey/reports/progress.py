"""How far the asking is, on a terminal and as a plain line."""

from __future__ import annotations

from answerkey.evaluate import Standing
from answerkey.models.calls import BatchSeen
from answerkey.text import GAP, INDENT, Line, Role, Span, line, make_visible, measure_width, shorten

#: What a bar is made of: the part that is done, and the rest.
BAR = "━─"
PLAIN_BAR = "=-"
_BAR_CELLS = 24
_LONGEST_NAME = 24
_THOUSAND = 1000
_MINUTE = 60
_HOUR = 3600
_SLOW = 10


def draw_standing(standing: Standing, width: int, *, bar: str = BAR) -> list[Line]:
    """Return a small block: a bar with how far it is, then how it goes, in lines of at most `width` cells."""
    head = draw_bar(_name(standing), standing.done, standing.total, bar=bar)
    lines = [_extend(head, _say_pace(standing), width), *_flow(_list_facts(standing), width)]
    if (why := _say_trouble(standing)) is not None:
        lines.append(line(GAP, Span(shorten(why, width - len(GAP)), "warn")))
    return lines


def draw_bar(name: str, done: int, total: int, *, bar: str = BAR) -> Line:
    """Return a bar with its name and count."""
    full = _BAR_CELLS * done // total if total else 0
    return line(
        Span(f"{shorten(name, _LONGEST_NAME)}{GAP}", "title"),
        Span(bar[0] * full, "good"),
        Span(bar[1] * (_BAR_CELLS - full), "dim"),
        f"{GAP}{done}/{total}" if total else f"{GAP}{done}",
    )


def write_standing(standing: Standing) -> str:
    """Return the same on one line, for a log."""
    share = f" ({100 * standing.done // standing.total} %)" if standing.total else ""
    facts = [f"{standing.done} of {standing.total}{share}", *_say_pace(standing)]
    facts += [text for text, _ in _list_facts(standing)]
    if (why := _say_trouble(standing)) is not None:
        facts.append(make_visible(why))
    return f"{make_visible(_name(standing))}: {', '.join(facts)}"


def _name(standing: Standing) -> str:
    return standing.task if standing.purpose == "solve" else f"{standing.task} {standing.purpose}"


def _say_pace(standing: Standing) -> list[str]:
    if standing.batches:
        return [_say_batch(one) for one in standing.batches]
    if standing.pace is None or standing.done >= standing.total:
        return []
    if not standing.pace:
        return ["waiting"]
    pace = f"{standing.pace:.0f}" if standing.pace >= _SLOW else f"{standing.pace:.1f}"
    left = [] if standing.seconds_left is None else [f"{format_duration(standing.seconds_left)} left"]
    return [f"{pace} requests/s", *left]


def _say_trouble(standing: Standing) -> str | None:
    """Return why nothing comes back; None where something does, or the reason is not known."""
    is_waiting = standing.pace is not None and not standing.pace and standing.done < standing.total
    return f"waits because {standing.trouble}" if is_waiting and standing.trouble else None


def _say_batch(seen: BatchSeen) -> str:
    return make_visible(f"batch {seen.batch} {seen.status} {seen.done}/{seen.total}")


def _list_facts(standing: Standing) -> list[tuple[str, Role]]:
    facts: list[tuple[str, Role]] = []
    if standing.accuracy is not None:
        share, (low, high) = standing.accuracy
        sure = f"[{100 * low:.1f}, {100 * high:.1f}]"
        facts.append((f"accuracy so far {100 * share:.1f} % {sure}", "strong"))
    if standing.invalid_share is not None:
        facts.append((f"INVALID {100 * standing.invalid_share:.1f} %", "plain"))
    facts.append((f"failed {standing.failed}", "bad" if standing.failed else "plain"))
    facts.append((f"retried {standing.retried}", "warn" if standing.retried else "plain"))
    tokens = f"{format_large(standing.prompt_tokens)} + {format_large(standing.completion_tokens)}"
    facts.append((f"tokens {tokens}", "plain"))
    return facts + ([(f"known before {standing.known}", "dim")] if standing.known else [])


def _extend(head: Line, parts: list[str], width: int) -> Line:
    """Return the line with the parts that still fit."""
    taken = sum(measure_width(span.text) for span in head)
    for part in parts:
        taken += len(GAP) + measure_width(part)
        head = (*head, Span(f"{GAP}{part}")) if taken <= width else head
    return head


def _flow(facts: list[tuple[str, Role]], width: int) -> list[Line]:
    lines: list[list[Span]] = [[]]
    taken = len(INDENT)
    for text, role in facts:
        cells = len(GAP) + measure_width(text)
        if lines[-1] and taken + cells > width:
            lines.append([])
            taken = len(INDENT)
        lines[-1] += [Span(GAP), Span(text, role)]
        taken += cells
    return [tuple(spans) for spans in lines]


def format_duration(seconds: float) -> str:
    """Return `0:07`, `12:30` or `3:05:00`."""
    whole = round(seconds)
    hours, rest = divmod(whole, _HOUR)
    minutes, left = divmod(rest, _MINUTE)
    return f"{hours}:{minutes:02d}:{left:02d}" if hours else f"{minutes}:{left:02d}"


def format_large(number: int) -> str:
    """Return a number in few digits: `950`, `12.3k`, `4.56M`."""
    if number < _THOUSAND:
        return str(number)
    if number < _THOUSAND * _THOUSAND:
        return f"{number / _THOUSAND:.1f}k"
    return f"{number / _THOUSAND / _THOUSAND:.2f}M"
