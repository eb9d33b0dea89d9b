"""Texts that answer nothing: whatever the choices are, no rule may find a choice in them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from answerkey.scorers.extraction import find_rule

LABELS = (
    "ABCD", "ABCDEFGHIJ", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "1234", "abcd", "YN", "①②③④", "ⅠⅡⅢⅣ",
    "αβγδ",
    "АБВГ", "أبجد", "甲乙丙丁", "アイウエ", "가나다라", "कखगघ",
)  # fmt: skip
OPTIONS = {"ABCD": ("Sydney", "Canberra", "Melbourne", "Perth"), "YN": ("Yes", "No")}

REFUSALS = {
    "English": (
        "I'm sorry, but I can't help with that.",
        "I cannot answer this question.",
        (
            "As an AI language model, I don't have personal opinions, so I can't choose an "
            "answer for you."
        ),
        "I'm not able to determine which option is correct without more context.",
        "I don't know the answer to this question.",
        "There is not enough information to say which of the options is right.",
        "I must decline to answer. Is there anything else I can do for you?",
        (
            "Apologies, but as a language model I am unable to view the image, so no "
            "option can be chosen."
        ),
        "I'd rather not pick an answer here.",
        "Based on the information provided, it is impossible to tell.",
        "A definitive answer cannot be given.",
        "Both sides have a point, and I will not take a side.",
        "Unfortunately, the question is missing its options. Could you paste them again?",
        "I am not comfortable answering that; please consult a professional.",
    ),
    "German": (
        "Es tut mir leid, aber dabei kann ich nicht helfen.",
        "Ich kann diese Frage leider nicht beantworten.",
        "Als KI-Sprachmodell habe ich keine eigene Meinung.",
        "Die Antwort auf diese Frage kenne ich nicht.",
        "Ohne weitere Angaben lässt sich die richtige Antwort nicht bestimmen.",
        "Da müsste ich raten, und das möchte ich nicht.",
    ),
    "French": (
        "Je suis désolé, mais je ne peux pas répondre à cette question.",
        "En tant que modèle de langage, je n'ai pas d'avis.",
        "Il m'est impossible de choisir une réponse sans plus de contexte.",
        "Désolé, je ne connais pas la réponse.",
        "À mon avis, la question est mal posée.",
    ),
    "Spanish": (
        "Lo siento, no puedo responder a esa pregunta.",
        "Como modelo de lenguaje, no tengo opiniones.",
        "No hay suficiente información para elegir una respuesta.",
        "La respuesta a esta pregunta depende de muchos factores.",
        "A decir verdad, no lo sé.",
    ),
    "Italian": (
        "Mi dispiace, non posso rispondere a questa domanda.",
        "In quanto modello linguistico, non ho opinioni personali.",
        "Non ci sono abbastanza informazioni per scegliere una risposta.",
        "A dire il vero, non lo so.",
    ),
    "Portuguese": (
        "Desculpe, não posso responder a essa pergunta.",
        "Como modelo de linguagem, não tenho opinião.",
        "A resposta depende do contexto, que não foi dado.",
        "Não há informação suficiente para escolher uma alternativa.",
    ),
    "Russian": (
        "Извините, я не могу ответить на этот вопрос.",
        "Как языковая модель, я не имею собственного мнения.",
        "Недостаточно информации, чтобы выбрать правильный ответ.",
        "А вот этого я не знаю.",
        "К сожалению, ответ на этот вопрос мне неизвестен.",
    ),
    "Chinese": (
        "抱歉，我无法回答这个问题。",
        "作为一个人工智能语言模型，我没有个人观点。",
        "题目信息不足，无法选择正确答案。",
        "对不起，我不知道答案是什么。",
        "我不能替您做出选择。",
    ),
    "Japanese": (
        "申し訳ありませんが、その質問にはお答えできません。",
        "AI言語モデルとして、個人的な意見は持っていません。",
        "情報が不足しているため、正解を選ぶことができません。",
        "答えはわかりません。",
    ),
    "Korean": (
        "죄송합니다. 그 질문에는 답할 수 없습니다.",
        "AI 언어 모델로서 개인적인 의견이 없습니다.",
        "정보가 부족하여 정답을 선택할 수 없습니다.",
        "정답을 모르겠습니다.",
    ),
    "Arabic": (
        "عذراً، لا أستطيع الإجابة على هذا السؤال.",
        "بصفتي نموذجاً لغوياً، ليس لدي رأي شخصي.",
        "لا توجد معلومات كافية لاختيار الإجابة الصحيحة.",
        "لا أعرف الجواب.",
    ),
    "Hindi": (
        "क्षमा करें, मैं इस प्रश्न का उत्तर नहीं दे सकता।",
        "एक भाषा मॉडल होने के नाते मेरी कोई राय नहीं है।",
        "सही उत्तर चुनने के लिए जानकारी पर्याप्त नहीं है।",
        "मुझे उत्तर नहीं पता।",
    ),
    "Dutch": ("Sorry, ik kan deze vraag niet beantwoorden.", "Als taalmodel heb ik geen mening."),
    "Polish": ("Przepraszam, nie mogę odpowiedzieć na to pytanie.", "Nie znam odpowiedzi."),
    "Turkish": ("Üzgünüm, bu soruyu yanıtlayamam.", "Doğru cevap için yeterli bilgi yok."),
    "Vietnamese": ("Xin lỗi, tôi không thể trả lời câu hỏi này.",),
    "Indonesian": ("Maaf, saya tidak dapat menjawab pertanyaan ini.",),
}

OFF_TOPIC = (
    "Vitamin C is found in oranges, and a lack of it causes scurvy.",
    "Plan B was never needed; plan A worked.",
    "The concert is in D minor and lasts an hour.",
    "An A-level in physics takes two years.",
    "He got an A in mathematics and a B in history.",
    "Hepatitis B is a viral infection of the liver.",
    "The C compiler was written in B, a language that few people remember.",
    "Chapter 3 explains how to bake bread in 4 steps.",
    "I went to the market and bought 2 apples, 3 pears and a melon.",
    "It is raining. I will stay at home today and read a book.",
    "To be, or not to be: that is the question.",
    "Once upon a time there was a king who had 4 daughters.",
    "A journey of a thousand miles begins with a single step.",
    "I think, therefore I am.",
    "In 1969 humans walked on the Moon for the first time.",
    "E = mc² relates energy to mass.",
    "def f(a, b):\n    return a + b\n",
    "for i in range(10):\n    print(i)\n",
    "SELECT a, b FROM t WHERE c = 4;",
    "<html><body><p>Hello</p></body></html>",
    "https://example.org/a/b/c?d=1",
    "Please rewrite the question so that it has an answer.",
    "The question asks which of the statements below is correct.",
    "Each option has its own strengths, and every answer deserves a second look.",
    "The options are A, B, C and D.",
    "Choose the letter of the best answer: A, B, C or D.",
    "Wer reitet so spät durch Nacht und Wind? Es ist der Vater mit seinem Kind.",
    "Longtemps, je me suis couché de bonne heure.",
    "En un lugar de la Mancha, de cuyo nombre no quiero acordarme.",
    "Nel mezzo del cammin di nostra vita mi ritrovai per una selva oscura.",
    "O rio corre para o mar, e o mar não se enche.",
    "Все счастливые семьи похожи друг на друга, а каждая несчастливая несчастлива по-своему.",
    "床前明月光，疑是地上霜。",
    "甲状腺激素可以调节新陈代谢。",
    "吾輩は猫である。名前はまだ無い。",
    "アメリカとイギリスは遠い国だ。",
    "나라의 말이 중국과 달라 문자와 서로 통하지 아니한다.",
    "السماء زرقاء والبحر واسع.",
    "सूरज पूरब में उगता है और पश्चिम में डूबता है।",
    "And then she said nothing more",
    (
        "Here is a poem about spring:\n\nThe buds awake, the rivers run,\nand every field "
        "drinks in the sun."
    ),
    "1. Preheat the oven.\n2. Mix the flour.\n3. Bake for an hour.",
    "- first point\n- second point\n- third point",
    "Thank you for your question!",
    "...",
    "?",
    "N/A",
    "null",
    "{}",
    "```python\nx = [1, 2, 3]\n```",
    "The the the the the the the the the the the",
    "answer answer answer answer",
    "The answer is",
    "Answer:",
    "I choose",
    "\\boxed{}",
    "<answer></answer>",
    "<think>The answer is B",
    '{"answer": ""}',
    "答案是",
    "正解は",
    "정답은",
)


def draw_noise(random: Random) -> Iterator[str]:
    """Yield noise: letters without sense, marks, other scripts, words shuffled."""
    words = " ".join(OFF_TOPIC).split()
    latin, greek, cyrillic = (0xA1, 0x17F), (0x370, 0x3FF), (0x400, 0x45F)
    ranges = ((0x21, 0x7E), latin, greek, cyrillic, (0x4E00, 0x4FFF), (0x1F300, 0x1F5FF))
    for number in range(400):
        low, high = ranges[number % len(ranges)]
        yield " ".join(
            "".join(chr(random.randint(low, high)) for _ in range(random.randint(3, 12)))
            for _ in range(random.randint(1, 8))
        )
        lower = [
            word.lower() for word in random.sample(words, 12) if len(word) > 3 and word.isalpha()
        ]
        yield " ".join(lower)
        yield "".join(random.choices("qwxzjkvp ", k=random.randint(5, 60))) + "qx"


def list_texts() -> list[tuple[str, str]]:
    """Return every text of the corpus with its kind."""
    refusals = [(language, text) for language, texts in REFUSALS.items() for text in texts]
    joined = [(language, " ".join(texts)) for language, texts in REFUSALS.items()]
    off_topic = [("off topic", text) for text in OFF_TOPIC]
    noise = [("noise", text) for text in draw_noise(Random(5))]
    return [*refusals, *joined, *off_topic, *noise]


@pytest.mark.parametrize("labels", LABELS)
def test_no_answer_is_found_where_none_is_stated(labels: str) -> None:
    """Refusals in seventeen languages, off-topic text and noise are INVALID, every one of them."""
    rule = find_rule("stated_answer")
    choices, options = tuple(labels), OPTIONS.get(labels)
    for kind, text in list_texts():
        for told in (None, options):
            reading = rule.read(text, choices, told)
            assert (kind, text, reading.choice) == (kind, text, None)
            assert reading.reason is not None
