"""`choice_order`: the options of each sample shown in other orders.

An order lists the positions in the file of the options shown: `(2, 0, 1)` shows the third option
first. Each row is ordered on its own, so that leaving one out does not change the others.
"""

# ruff: noqa: E501, RUF001 - words of many languages, a pattern on each line

from __future__ import annotations

import hashlib
import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from itertools import permutations
from operator import add
from typing import Any, Literal, NamedTuple

from answerkey.datasets.rows import ID_COLUMN
from answerkey.errors import SpecError
from answerkey.reader.explain import shorten
from answerkey.solvers.solver import parse_literal
from answerkey.templates import Template
from answerkey.text import format_count
from answerkey.types import Draws, Row, Samples

Orders = Literal["original", "shuffled", "rotations", "all"]
Path = tuple[str | int, ...]
Places = tuple[int, ...]
Labels = Sequence[str]
Order = Sequence[int]

#: The maximum number of orders with `orders: all`, which is enough for five options.
MAX_ORDERS = 120
#: The reason for leaving a row whose options cannot be reordered in its original order.
UNSUITABLE = "UNSUITABLE"


@dataclass(frozen=True)
class Pride:
    """The share of samples from which the model's position prior is estimated, and the seed that
    draws them.

    These samples are shown in all rotations; the others need no additional calls.
    """

    share: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise SpecError(
                "E108", f"`share` is {self.share!r}", hint="between 0 and 1, such as 0.05"
            )

    def chooses(self, row: Row) -> bool:
        """Whether the prior is estimated from a row."""
        draws = Draws(self.seed, digest_row(row))
        return draws.draw("pride") < self.share


@dataclass(frozen=True)
class ChoiceOrder:
    """Where the option texts are, and the orders in which they are shown.

    `options` is a template that only reads a column (or a field in one), or a list of such
    templates, one for each option. `shuffled` shows each sample in one random order, drawn from
    `seed` and the row's content.
    """

    options: str | list[str]
    orders: Orders
    seed: int = 0
    pride: Pride | None = None

    def __post_init__(self) -> None:
        _ = self.paths

    @cached_property
    def paths(self) -> tuple[Path, ...]:
        """The paths from a sample to the cells that contain option texts."""
        sources = self.options
        if not isinstance(sources, list):
            sources = [sources]
        paths = []
        for source in sources:
            template = Template.compile(source)
            if template.path is None:
                need = "it must only read a column, so that the options can be put back there"
                raise SpecError(
                    "E108",
                    f"`options` is {source!r}: {need}",
                    hint='write "{{ sample.COLUMN }}", or a list of these, one for each option',
                )
            paths.append(template.path)
        return tuple(paths)

    @property
    def columns(self) -> frozenset[str]:
        """The columns that contain option texts."""
        return frozenset(str(path[0]) for path in self.paths)

    def read(self, row: Row, labels: Labels) -> OrderedOptions:
        """Return the options of a row; raise OptionError if they cannot be reordered."""
        cells = [_get(row, path) for path in self.paths]
        if not isinstance(self.options, list):
            return read_cell(cells[0], labels)
        # Trailing cells without text are options that the row does not have.
        count = len(cells)
        while count and cells[count - 1] in (None, ""):
            count -= 1
        inner = _read_list(cells[:count], labels)
        blanks = cells[count:]
        return OrderedOptions(inner.texts, lambda order: [*inner.arrange(order), *blanks])

    def arrange(self, row: Row, labels: Labels, order: Order) -> dict[str, object]:
        """Return the columns of a row that contain option texts, with the options in this order."""
        cells = self.read(row, labels).arrange(order)
        if not isinstance(self.options, list):
            cells = [cells]
        changed: dict[str, object] = {}
        for path, cell in zip(self.paths, cells, strict=True):
            column = str(path[0])
            before = changed.get(column, row[column])
            changed[column] = _put(before, path[1:], cell)
        return changed


def _get(row: Row, path: Path) -> Any:  # noqa: ANN401 - a cell of any type
    """Return the cell at a path; raise OptionError if there is none."""
    cell: Any = row
    try:
        for step in path:
            cell = cell[step]
    except (KeyError, IndexError, TypeError):
        raise OptionError(f"there is no `{'.'.join(map(str, path))}`") from None
    return cell


def _put(cell: object, path: Path, value: object) -> object:
    """Return a copy of a cell with a value set at a path."""
    if not path:
        return value
    copied = dict(cell) if isinstance(cell, dict) else list(cell)  # type: ignore[call-overload]  # the path was followed before
    step = path[0]
    copied[step] = _put(copied[step], path[1:], value)
    return copied


class RowOrders(NamedTuple):
    """The orders of one row, or why it keeps its original order; `problem` says what is wrong with
    it.

    A row that `estimates_prior` is also shown in the orders `extra`, which are used only for the
    prior.
    """

    orders: tuple[Places, ...]
    not_reordered: str | None = None
    problem: str | None = None
    estimates_prior: bool = False
    extra: tuple[Places, ...] = ()


def plan_row(setting: ChoiceOrder, row: Row, labels: Labels | None) -> RowOrders:
    """Return the orders of a row; if its options cannot be reordered, only the order in the
    file.
    """
    if labels is None:  # the scorer reports what is wrong with the choices
        return RowOrders(((),), UNSUITABLE)
    same = tuple(range(len(labels)))
    try:
        options = setting.read(row, labels)
    except OptionError as problem:
        return RowOrders((same,), UNSUITABLE, str(problem))
    is_original = setting.orders == "original"
    if is_original and setting.pride is None:
        return RowOrders((same,))
    reference = find_reference(options.texts, labels)
    if reference is not None:
        return RowOrders((same,), None if is_original else reference)
    count = math.factorial(len(same))
    if setting.orders == "all" and count > MAX_ORDERS:
        why = f"its {len(same)} options have {count} orders, and `all` shows at most {MAX_ORDERS}"
        return RowOrders((same,), UNSUITABLE, why)
    orders = list_orders(setting.orders, len(same))
    if setting.orders == "shuffled":
        draws = Draws(setting.seed, digest_row(row))
        orders = (_shuffle(same, draws),)
    if setting.pride is None or not setting.pride.chooses(row):
        return RowOrders(orders)
    rotations = list_orders("rotations", len(same))
    extra = tuple(order for order in rotations if order not in orders)
    return RowOrders(orders, estimates_prior=True, extra=extra)


def _shuffle(places: Places, draws: Draws) -> Places:
    ranks = [(draws.rank(f"option {place}"), place) for place in places]
    return tuple(place for _, place in sorted(ranks))


def option_texts(
    setting: ChoiceOrder,
    samples: Samples,
    choices: Sequence[Labels | None],
) -> list[Labels | None]:
    """Return the option texts of each sample in their current order; None if there are none."""
    if not setting.columns <= set(samples.columns):
        return [None] * len(samples)
    options: list[Labels | None] = []
    for row, labels in zip(samples.rows(), choices, strict=True):
        texts: Labels | None = None
        with suppress(OptionError):
            if labels is not None:
                texts = setting.read(row, labels).texts
        options.append(texts)
    return options


@lru_cache(maxsize=128)
def list_orders(orders: Orders, count: int) -> tuple[Places, ...]:
    """Return the orders of `count` options, the order in the file first."""
    same = tuple(range(count))
    if orders == "rotations":
        return tuple(same[shift:] + same[:shift] for shift in range(count))
    if orders == "all":
        return tuple(permutations(same))
    return (same,)


# The content of a row, independent of the file format: the same question has the same digest in CSV
# and JSON.


def digest_row(row: Mapping[str, object]) -> str:
    """Return the SHA-256 of a row's content, ignoring its id, empty cells and the order of columns.

    Numbers, booleans, lists and mappings equal the texts that spell them.
    """
    cells = dict(row)
    cells.pop(ID_COLUMN, None)
    text = json.dumps(_normalise(cells), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _normalise(value: object) -> object:
    if isinstance(value, Mapping):
        cells = {}
        for name, entry in value.items():
            cell = _normalise(entry)
            if cell is not None:
                cells[str(name)] = cell
        return cells
    if isinstance(value, list | tuple):
        return [_normalise(entry) for entry in value]
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if value is None or value == "":
        return None
    return _normalise_text(str(value).strip())


def _normalise_text(text: str) -> object:
    if text[:1] in {"[", "{"}:
        literal = parse_literal(text)[0]
        if literal is None:
            return text
        return _normalise(literal)
    if text.casefold() in {"true", "false"}:
        return text.casefold()
    try:
        return repr(float(text))
    except (ValueError, OverflowError):
        return text


# The option texts of a cell, and the same cell with its options in another order.

#: The names of the field that may contain an option's text.
TEXT_FIELDS = ("text", "content", "option", "value", "answer", "choice")
_LABEL = r"\s*[(\[]?\s*LABEL\s*(?:[)\].:．。、：）]|-\s|\s-\s)[)\]]?\s*"


class OptionError(Exception):
    """The options of a row cannot be reordered; the text says why."""


class OrderedOptions(NamedTuple):
    """The options of one row: their texts without labels, and a function that builds the cell for
    an order.
    """

    texts: tuple[str, ...]
    arrange: Callable[[Order], Any]


def read_cell(cell: object, labels: Labels) -> OrderedOptions:
    """Return the options of a cell, in the order of their labels; raise OptionError.

    The cell is a list, a mapping, or either written as JSON or as a Python literal.
    """
    if isinstance(cell, str):
        value, is_json = parse_literal(cell)
        if not isinstance(value, list | tuple | Mapping):
            raise OptionError(f"the options are the text {shorten(cell)}, not a list")
        written = read_cell(value, labels)
        write = repr
        if is_json:
            write = partial(json.dumps, ensure_ascii=False)
        return OrderedOptions(written.texts, lambda order: write(written.arrange(order)))
    if isinstance(cell, Mapping):
        return _read_mapping(cell, labels)
    if isinstance(cell, list | tuple):
        return _read_list(list(cell), labels)
    raise OptionError(f"the options are {shorten(cell)}, not a list")


def _read_mapping(cell: Mapping[Any, Any], labels: Labels) -> OrderedOptions:
    keys = [key for key in cell if str(key) in labels]
    if not set(map(str, cell)).issuperset(labels):
        # Keys without a value belong to other rows.
        keys = [key for key in cell if cell[key] is not None]
    options = _read_list([cell[key] for key in keys], labels)

    def arrange(order: Order) -> dict[Any, Any]:
        moved = zip(keys, options.arrange(order), strict=True)
        return {**cell, **dict(moved)}

    return OrderedOptions(options.texts, arrange)


def _read_list(cells: list[Any], labels: Labels) -> OrderedOptions:
    if len(cells) != len(labels):
        count = format_count(len(cells), "option")
        raise OptionError(f"there are {count} for {len(labels)} choices")
    if cells and all(isinstance(cell, Mapping) for cell in cells):
        return _read_objects(cells, labels)
    prefixes = []
    contents = []
    for cell, label in zip(cells, labels, strict=True):
        if isinstance(cell, bool) or not isinstance(cell, str | int | float):
            raise OptionError(f"the option {shorten(cell)} is not text or a number")
        text = str(cell)
        pattern = _LABEL.replace("LABEL", re.escape(label))
        prefix = re.match(pattern, text)
        if prefix:
            prefixes.append(prefix[0])
            contents.append(text[prefix.end() :])
    if len(prefixes) < len(cells):
        texts = tuple(map(str, cells))
        return OrderedOptions(texts, lambda order: [cells[place] for place in order])

    def arrange(order: Order) -> list[str]:
        moved = [contents[place] for place in order]
        return list(map(add, prefixes, moved))

    return OrderedOptions(tuple(contents), arrange)


def _read_objects(cells: list[Mapping[str, Any]], labels: Labels) -> OrderedOptions:
    moving: dict[str, list[Any]] = {}
    for name in cells[0]:
        column = [cell.get(name) for cell in cells]
        texts = [str(value).strip() for value in column]
        if texts != list(labels):  # the labels keep their positions
            moving[name] = column

    def arrange(order: Order) -> list[dict[str, Any]]:
        arranged = []
        for cell, place in zip(cells, order, strict=True):
            moved = {name: moving[name][place] for name in moving.keys() & cell}
            arranged.append({**cell, **moved})
        return arranged

    for name in (*TEXT_FIELDS, *moving):
        column = moving.get(name, [])
        if set(map(type, column)) == {str}:
            return OrderedOptions(tuple(column), arrange)
    raise OptionError(f"the options are objects without a text: {shorten(cells[0])}")


# Options that refer to other options: by their letters, by their positions, or to all of them.

Reference = Literal["REFERS_TO_OTHERS", "REFERS_TO_LABELS"]

#: Longer options are full sentences, which are not searched for references.
MAX_REFERENCE_LENGTH = 150

_AROUND = " \t\r\n.,;:!?\"'`()[]{}«»“”„‘’*_。．、，；：！？（）「」『』【】।؟،-–—"
#: Kana, Han and Hangul: words in these scripts may follow a label, or each other, without a space.
_SCRIPTS = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_LEADS = "(?:both|either|neither|options?|choices?|answers?|statements?)"


def find_reference(options: Sequence[str], labels: Labels) -> Reference | None:
    """Return how some option refers to the others; None if the options can be in any order.

    `labels` are the labels of the options, in their order.
    """
    for option in options:
        words = unicodedata.normalize("NFKC", option).split()
        text = " ".join(words)
        if not text or len(text) > MAX_REFERENCE_LENGTH:
            continue
        plain = text.strip(_AROUND).casefold()
        if _compile_phrases().fullmatch(plain):
            return "REFERS_TO_OTHERS"
        if _names_labels(text, tuple(labels)):
            return "REFERS_TO_LABELS"
    return None


def _names_labels(text: str, labels: tuple[str, ...]) -> bool:
    """Return whether a text lists labels, or consists only of labels and words for them."""
    token, inside = _compile_labels(labels)
    if inside.search(text):
        return True
    plain = text.strip(_AROUND).casefold()
    kinds = []
    end = 0
    while (word := token.match(plain, end)) and word.end() > end:
        kinds.append(word.lastgroup)
        end = word.end()
    if end < len(plain):
        return False
    count = kinds.count("label")
    return count > 1 or (count == 1 and "word" in kinds)


@cache
def _compile_phrases() -> re.Pattern[str]:
    phrases: list[str] = []
    for group in PHRASES.values():
        phrases += group
    return re.compile("|".join(phrases))


@lru_cache(maxsize=256)
def _compile_labels(labels: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return a pattern of a label, a word for labels or a separator, and a pattern of a list of
    labels.
    """
    names = {"label": labels, "word": REFERRING, "join": JOINS, "filler": FILLERS}
    kinds = [rf"(?P<{kind}>{_spell_bound(words)})" for kind, words in names.items()]
    token = rf"(?>{'|'.join(kinds)}|(?P<mark>[\s{re.escape(_AROUND)}&+/]))"
    label = rf"[(\[]?(?:{_spell(labels)})[)\]]?"
    joins = _spell(JOINS)
    inside = rf"(?<!\w)(?i:{_LEADS}) {label}(?:,? (?:{joins}) {label}|, {label})(?!\w)"
    return re.compile(token), re.compile(inside)


def _spell_bound(words: Iterable[str]) -> str:
    """Return a pattern of whole words, except in scripts that do not put spaces between words."""
    spaced = []
    unspaced = []
    for word in words:
        if re.fullmatch(f"[{_SCRIPTS}]+", word):
            unspaced.append(word.casefold())
        else:
            spaced.append(word.casefold())
    bound = rf"(?<![^\W_{_SCRIPTS}])(?:{_spell(spaced)})(?![^\W_{_SCRIPTS}])"
    if unspaced:
        return f"{bound}|{_spell(unspaced)}"
    return bound


def _spell(words: Iterable[str]) -> str:
    longest_first = sorted(words, key=len, reverse=True)
    return "|".join(map(re.escape, longest_first))


# How options of multiple-choice questions refer to the other options, in many languages.

_NOUNS = "(?:options?|answers?|choices?|alternatives?|statements?|responses?)"
_RIGHT = "(?:correct|right|true|valid|possible|wrong|incorrect|false)"
_HOW_MANY = (
    "(?:all|none|any|some|both|neither|either|each|most|two|one|not all|only one|more than one)"
)
_HOW_MANY_OF = f"{_HOW_MANY}(?: of)?"

PHRASES: dict[str, tuple[str, ...]] = {
    "en": (
        f"{_HOW_MANY_OF}(?: the)? (?:above|preceding|foregoing|previous|following|other {_NOUNS}|others)(?: .*)?",
        f"{_HOW_MANY_OF} (?:these|those|them|the {_NOUNS})(?: {_NOUNS})?(?: (?:is|are) {_RIGHT}| apply)?",
        f"(?:all|none|both|neither|no|every|each)(?: {_NOUNS})? (?:is|are) {_RIGHT}",
        f"(?:the )?(?:above|previous|preceding) {_NOUNS}(?: .*)?",
        f"(?:the )?(?:first|last) (?:two|three)(?: {_NOUNS})?(?: .*)?",
        f"(?:the )?(?:first|second|third|fourth|last) {_NOUNS}(?: .*)?",
        "both|neither|all|(?:a )?combination of the above|there is no correct answer|no correct answer",
    ),
    "de": (
        (
            "(?:alle|alles|keine[rs]?|nichts|beide|beides|jede[rs]?|mehrere)(?: der| von den| des| vom| den)?"
            " (?:oben|zuvor|vorher|obigen?|oben ?genannten|obenstehenden|vorstehenden|vorherigen|genannten|anderen)"
            "(?: .*)?"
        ),
        "(?:alle|keine)(?: der)? (?:antworten|aussagen|optionen|möglichkeiten|antwort)(?: .*)?",
        "keine[rs]? davon|nichts davon|alle davon|alles davon|beide davon|beides|beide|weder noch",
    ),
    "fr": (
        (
            "(?:tous|toutes|aucune?|tout)(?: d'entre)?(?: les| des| de| ces| ce qui)?(?: .*)?"
            " (?:ci-dessus|précède|précédente?s?|proposée?s)(?: .*)?"
        ),
        (
            "(?:toutes|tous|aucune?|les deux|une)(?: de| des| les)?(?: ces)? (?:réponses|options|propositions|choix)"
            "(?: .*)?"
        ),
        "aucune?(?: de ces| d'entre eux| d'entre elles| de ceux-ci)|rien de tout cela|tout cela|les deux|ni l'un ni l'autre",
    ),
    "es": (
        (
            "(?:todas|todos|todo|ninguna|ninguno|nada|ambas|ambos|cualquiera)(?: de)?(?: las| los| lo)?"
            " anterior(?:es)?(?: .*)?"
        ),
        (
            "(?:todas|todos|ninguna|ninguno|ambas)(?: de)?(?: las| los| estas| estos)?(?: dos)?"
            " (?:opciones|respuestas|alternativas|afirmaciones)(?: .*)?"
        ),
        "(?:todas|ninguna|ambas) (?:son|es) correctas?|ninguna de (?:ellas|estas)|ambas|ambos",
    ),
    "it": (
        (
            "(?:tutte|tutti|tutto|nessuna|nessuno|niente|entrambe|entrambi)(?: le| i| delle| dei| quanto)?"
            "(?: altre)?(?: risposte| opzioni| alternative)? preceden[tz][ei]?(?: .*)?"
        ),
        (
            "(?:tutte|nessuna|entrambe)(?: le| delle| queste)?(?: altre)? (?:risposte|opzioni|alternative|affermazioni)"
            "(?: .*)?"
        ),
        "nessuna delle altre|nessuna di queste|nessuno di questi|tutte queste|tutti questi|entrambe|entrambi",
    ),
    "pt": (
        (
            "(?:todas|todos|tudo|nenhuma|nenhum|nada|ambas|ambos)(?: as| os| o| das| dos| do)?"
            "(?: alternativas| opções| respostas)? (?:anterior(?:es)?|acima)(?: .*)?"
        ),
        "(?:todas|nenhuma|ambas)(?: as| das| destas)? (?:alternativas|opções|respostas|afirmações)(?: .*)?",
        "nenhuma destas|nenhum destes|n\\.?d\\.?a|todas estão corretas|ambas|ambos",
    ),
    "nl": (
        "(?:al|alle|alles|geen|beide)(?: van)?(?: de| het)? (?:bovenstaande|genoemde|bovengenoemde)(?: .*)?",
        "(?:alle|geen)(?: van)?(?: de| deze)? (?:antwoorden|opties)(?: .*)?|geen van beide|geen van deze",
    ),
    "pl": (
        "(?:wszystkie|żadn[aey]|oba|obie)(?: z)? (?:powyższych|powyższe|odpowiedzi|podanych|wymienionych)(?: .*)?",
    ),
    "ru": (
        (
            "(?:все|всё|вся|ничего|ничто|ни одно|ни один|ни одна|любое|оба)(?: из)?(?: этих)?"
            " (?:выше\\w*|перечисленн\\w*|указанн\\w*|вариант\\w*|ответ\\w*|этого|них)(?: .*)?"
        ),
        "нет (?:верного|правильного) (?:ответа|варианта)|оба|обе|ни то,? ни другое",
    ),
    "uk": (
        "(?:усі|всі|все|жодн\\w*|нічого)(?: з)? (?:вище\\w*|перелічен\\w*|варіант\\w*|відповід\\w*)(?: .*)?",
    ),
    "tr": ("(?:yukarıdakilerin )?(?:hepsi|hiçbiri|her ikisi)",),
    "zh": (
        "(?:以上|上述|上面|前述)(?:的)?(?:所有|全部|都|皆|均|全|选项|選項|答案|各项|各項|三项|两者|任何|任一|没有|无).*",
        "以上(?:对|对的|是|非|不是)|(?:全部|所有|全)(?:都)?(?:是|对|對|正确|正確|选项|選項)",
        "(?:都|皆|均)(?:不)?(?:是|对|對|正确|正確|非)|(?:选项|選項)?(?:都不|皆不|均不).*",
        "(?:无|無|没有)正[确確]答案|两者(?:都|皆|均).*|兩者(?:都|皆|均).*|前[两兩三二]项|前[两兩三二]項",
    ),
    "ja": (
        (
            "(?:上記|以上|上|前述|これら|それら|選択肢)(?:の)?(?:うち)?(?:、)?"
            "(?:すべて|全て|全部|いずれも|いずれか|いずれでも|どれも|どれでも|両方|どちらも).*"
        ),
        "(?:どれ|いずれ)でも(?:ない|ありません)|該当なし|(?:すべて|全て)(?:正しい|当てはまる)|両方|どちらも.*",
    ),
    "ko": (
        "(?:위|위의|위에|상기|보기)(?: ?의)?(?: ?것)? ?(?:모두|모든|전부|어느|중|둘|보기|답).*",
        "모두 ?(?:정답|맞다|맞음|옳다|옳음|해당).*|해당 ?(?:사항 ?)?없음|(?:정)?답 ?없음|둘 ?다.*|어느 것도 아님",
    ),
    "ar": (
        "(?:جميع|كل|كافة|أي|بعض)(?: من)? (?:ما|مما|الإجابات|الاجابات|الخيارات|الاختيارات|البدائل)(?: .*)?",
        "لا شيء (?:مما|من)(?: .*)?|ليس (?:أي )?(?:مما|من)(?: .*)?|لا توجد إجابة صحيحة|كلاهما|كلا الخيارين",
        "لا أحد (?:مما|من)(?: .*)?",
    ),
    "fa": (
        "(?:همه|همهٔ|تمام|هیچ ?کدام|هیچ یک)(?:ی)?(?: از)? (?:موارد|گزینه\\S*)(?: .*)?|هیچ ?کدام|هر دو",
    ),
    "hi": (
        "(?:उपरोक्त|उपर्युक्त|ऊपर|इनमें|इन में|दिए गए)(?: .*)?(?:सभी|कोई|दोनों|सब)(?: .*)?",
        "ये सभी|इनमें से सभी|दोनों|सभी",
    ),
    "vi": (
        "(?:tất cả|cả)(?: .*)? (?:ở trên|nêu trên|trên)|tất cả (?:các )?(?:đáp án|phương án|câu)(?: .*)?",
        "không (?:có )?(?:đáp án|phương án|câu) nào(?: .*)?",
    ),
    "id": (
        "(?:semua|tidak ada|bukan)(?: satu pun)?(?: dari)?(?: .*)? (?:di ?atas|benar|tersebut)(?: .*)?",
    ),
}


def _split_words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]


#: Words that join two labels: *A and B*, *A或B*.
JOINS = _split_words("""
    and, or, nor, and/or, und, oder, noch, et, ou, ni, y, e, o, u, ed, né, nem, en, of, и, или, ни,
    та, або, i, lub, ve, veya, 和, 与, 與, 及, 或, 跟, と, か, や, および, または, 와, 과, 및, 또는, 그리고, و, أو, او,
    या, और, तथा, एवं, và, hoặc, dan, atau
""")

#: Words next to labels that refer to options: *only A*, *option B*, *A and B are correct*.
REFERRING = _split_words("""
    both, either, neither, only, just, option, options, choice, choices, answer, answers,
    statement, statements, same as, except, all of, none of, together, nur, beide, sowohl,
    als auch, weder, entweder, antwort, antworten, allein, les deux, à la fois, soit, seulement,
    uniquement, réponse, réponses, seule, ambas, ambos, solo, sólo, solamente, únicamente,
    respuesta, respuestas, opción, opciones, entrambe, entrambi, soltanto, risposta, risposte,
    opzione, opzioni, apenas, só, somente, resposta, respostas, alternativa, alternativas, alleen,
    zowel, antwoord, оба, обе, только, ответ, ответы, вариант, варианты, тільки, tylko, sadece,
    yalnız, 只有, 仅, 僅, 都, 皆, 均, 选项, 選項, 两者, 兩者, 项, 項, のみ, だけ, 両方, どちらも, 選択肢, 모두, 둘 다, 만, 정답, 보기,
    فقط, كلا, كل من, معا, معًا, الإجابة, الخيار, केवल, दोनों, सिर्फ, विकल्प, cả, chỉ, đều, hanya,
    keduanya
""")

#: Words that mean a reference next to several labels, but not next to one: *A and B are true*.
FILLERS = _split_words("""
    the, is, are, also, not, correct, right, true, false, wrong, above, richtig, falsch, sind, ist,
    als, sont, correctes, vraies, son, correctas, verdaderas, tanto, como, quanto, sia, che, sono,
    corrette, estão, corretas, zijn, juist, верны, правильны, 是, 对, 對, 正确, 正確, 不, の, 正しい, 옳다,
    صحيحة, صحيح, सही, हैं, है, đúng, benar
""")
