"""How options of multiple-choice questions speak of the other options, in many languages.

Each entry is a regular expression for a whole option, in lower case, without the punctuation around it. Where
the words say *above* or the like, anything may follow them.
"""

# ruff: noqa: RUF001, E501 - words of many languages, which look like others and are as wide as they are

from __future__ import annotations

_NOUNS = "(?:options?|answers?|choices?|alternatives?|statements?|responses?)"
_RIGHT = "(?:correct|right|true|valid|possible|wrong|incorrect|false)"
_HOW_MANY = "(?:all|none|any|some|both|neither|either|each|most|two|one|not all|only one|more than one)"
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
    "fa": ("(?:همه|همهٔ|تمام|هیچ ?کدام|هیچ یک)(?:ی)?(?: از)? (?:موارد|گزینه\\S*)(?: .*)?|هیچ ?کدام|هر دو",),
    "hi": (
        "(?:उपरोक्त|उपर्युक्त|ऊपर|इनमें|इन में|दिए गए)(?: .*)?(?:सभी|कोई|दोनों|सब)(?: .*)?",
        "ये सभी|इनमें से सभी|दोनों|सभी",
    ),
    "vi": (
        "(?:tất cả|cả)(?: .*)? (?:ở trên|nêu trên|trên)|tất cả (?:các )?(?:đáp án|phương án|câu)(?: .*)?",
        "không (?:có )?(?:đáp án|phương án|câu) nào(?: .*)?",
    ),
    "id": ("(?:semua|tidak ada|bukan)(?: satu pun)?(?: dari)?(?: .*)? (?:di ?atas|benar|tersebut)(?: .*)?",),
}

#: Words that join two labels: *A and B*, *A或B*.
JOINS = (
    "and", "or", "nor", "and/or", "und", "oder", "noch", "et", "ou", "ni", "y", "e", "o", "u", "ed", "né",
    "nem", "en", "of", "и", "или", "ни", "та", "або", "i", "lub", "ve", "veya", "和", "与", "與", "及", "或",
    "跟", "と", "か", "や", "および", "または", "와", "과", "및", "또는", "그리고", "و", "أو", "او", "या", "और",
    "तथा", "एवं", "và", "hoặc", "dan", "atau",
)  # fmt: skip

#: Words beside labels that speak of options: *only A*, *option B*, *A and B are correct*.
REFERRING = (
    "both", "either", "neither", "only", "just", "option", "options", "choice", "choices", "answer", "answers",
    "statement", "statements", "same as", "except", "all of", "none of", "together",
    "nur", "beide", "sowohl", "als auch", "weder", "entweder", "antwort", "antworten", "allein",
    "les deux", "à la fois", "soit", "seulement", "uniquement", "réponse", "réponses", "seule",
    "ambas", "ambos", "solo", "sólo", "solamente", "únicamente", "respuesta", "respuestas",
    "opción", "opciones",
    "entrambe", "entrambi", "soltanto", "risposta", "risposte", "opzione", "opzioni",
    "apenas", "só", "somente", "resposta", "respostas", "alternativa", "alternativas",
    "alleen", "zowel", "antwoord",
    "оба", "обе", "только", "ответ", "ответы", "вариант", "варианты", "тільки", "tylko", "sadece", "yalnız",
    "只有", "仅", "僅", "都", "皆", "均", "选项", "選項", "两者", "兩者", "项", "項",
    "のみ", "だけ", "両方", "どちらも", "選択肢",
    "모두", "둘 다", "만", "정답", "보기",
    "فقط", "كلا", "كل من", "معا", "معًا", "الإجابة", "الخيار",
    "केवल", "दोनों", "सिर्फ", "विकल्प",
    "cả", "chỉ", "đều", "hanya", "keduanya",
)  # fmt: skip

#: Words that may stand beside several labels, and beside one say nothing: *A and B are true*.
FILLERS = (
    "the", "is", "are", "also", "not", "correct", "right", "true", "false", "wrong", "above",
    "richtig", "falsch", "sind", "ist", "als", "sont", "correctes", "vraies", "son", "correctas", "verdaderas",
    "tanto", "como", "quanto", "sia", "che", "sono", "corrette", "estão", "corretas", "zijn", "juist",
    "верны", "правильны", "是", "对", "對", "正确", "正確", "不", "の", "正しい", "옳다", "صحيحة", "صحيح",
    "सही", "हैं", "है", "đúng", "benar",
)  # fmt: skip
