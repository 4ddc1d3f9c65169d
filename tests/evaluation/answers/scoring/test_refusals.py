"""Refusals in the most used languages, and answers that only deny something."""

from evaluation.answers.scoring.refusals import refuses
from tests.support.rows import all_rows

REFUSALS = {
    "en": [
        "I don't know.",
        "I don’t have enough information to answer this.",
        "I'm sorry, but I cannot answer that.",
        "Sorry! I could not find anything about it.",
        "I have no information about prices on Mars.",
        "Unfortunately none of the passages cover Mars pricing",
        "None of the documents mention it.",
        "Nothing in the provided context is about Mars.",
        "The passages contain no price for Mars.",
        "The documentation is silent on this.",
        "The manual lacks this detail.",
        "that is beyond what I can see",
        "This is outside the scope of the documents.",
        "That falls outside my knowledge.",
        "The price is not listed in the handbook.",
        "It could not be determined from the passages.",
        "I was unable to find this.",
        "I'm unaware of any such price.",
        "There is nothing about Mars in the documents.",
        "Based on the context, it isn't specified in the text.",
        "The provided passages do not mention the price.",
        "Unfortunately, there is no information about this in the documents.",
        "This cannot be answered from the passages.",
        "There is not enough information.",
    ],
    "de": [
        "Das weiß ich nicht.",
        "Das weiß ich nicht. Ich weiß es nicht.",
        "Das steht nicht in den Unterlagen",
        "Das geht aus den Dokumenten nicht hervor",
        "Aus den Texten geht das nicht hervor.",
        "Dazu habe ich keine Informationen.",
        "Dazu liegen mir leider keine Angaben vor.",
        "Die Unterlagen enthalten dazu keine Angaben.",
        "In den Dokumenten findet sich dazu nichts.",
        "Diese Frage kann ich anhand der Texte nicht beantworten.",
        "Das lässt sich den Unterlagen nicht entnehmen.",
        "Ich habe dazu nichts gefunden.",
        "Der Preis wird in den Dokumenten nicht genannt.",
        "Leider enthält der Kontext diese Information nicht.",
    ],
    "fr": [
        "Je ne sais pas.",
        "Je ne dispose pas de cette information.",
        "Je n'ai trouvé aucune information à ce sujet.",
        "Les documents ne mentionnent pas le prix.",
        "Cette information ne figure pas dans les documents.",
        "Le texte ne précise pas ce point.",
        "Il n'est pas possible de répondre à cette question.",
        "Aucune mention du prix dans les passages.",
        "Je n’ai pas cette information.",
    ],
    "es": [
        "No lo sé.",
        "no dispongo de esa información",
        "Lo siento, no tengo información sobre eso.",
        "No hay información al respecto en los documentos.",
        "Los documentos no mencionan el precio.",
        "El texto no indica el precio.",
        "Esa información no aparece en los documentos.",
        "No puedo responder a esa pregunta.",
        "No encuentro ese dato en los textos.",
        "Ninguno de los documentos habla de Marte.",
    ],
    "it": [
        "Non lo so.",
        "Non dispongo di questa informazione.",
        "Non ho informazioni al riguardo.",
        "I documenti non menzionano il prezzo.",
        "Questa informazione non è presente nei documenti.",
        "Non posso rispondere a questa domanda.",
        "Nei documenti non ci sono informazioni sul prezzo.",
        "Il testo non specifica il prezzo.",
    ],
    "pt": [
        "Não sei.",
        "Não tenho essa informação.",
        "Os documentos não mencionam o preço.",
        "Não há informações sobre isso nos documentos.",
        "Essa informação não está nos documentos.",
        "Não consigo responder a essa pergunta.",
        "O texto não indica o preço.",
        "Não encontrei essa informação.",
    ],
    "nl": [
        "Dat weet ik niet.",
        "Ik weet het niet.",
        "Dat staat niet in de documenten.",
        "De documenten bevatten hierover geen informatie.",
        "Ik heb hierover geen informatie.",
        "Ik kan deze vraag niet beantwoorden.",
        "De prijs wordt niet in de tekst genoemd.",
    ],
    "sv": [
        "Det vet jag inte.",
        "Jag vet inte.",
        "Det står inte i dokumenten.",
        "Dokumenten innehåller ingen information om det.",
        "Jag har ingen information om det.",
        "Det framgår inte av texten.",
    ],
    "da": [
        "Det ved jeg ikke.",
        "Det står ikke i dokumenterne.",
        "Jeg har ingen oplysninger om det.",
        "Dokumenterne indeholder ikke oplysninger om det.",
    ],
    "no": [
        "Det vet jeg ikke.",
        "Det står ikke i dokumentene.",
        "Jeg finner ikke svaret.",
        "Teksten nevner ikke prisen.",
    ],
    "fi": [
        "En tiedä.",
        "Asiakirjoissa ei mainita hintaa.",
        "Minulla ei ole tietoa tästä.",
        "En löydä vastausta annetuista teksteistä.",
        "Sitä ei kerrota asiakirjoissa.",
    ],
    "pl": [
        "Nie wiem.",
        "Nie mam informacji na ten temat.",
        "Dokumenty nie zawierają tej informacji.",
        "Brak informacji o cenie.",
        "Nie mogę odpowiedzieć na to pytanie.",
        "W dokumentach nie ma o tym mowy.",
        "Nie wynika to z dokumentów.",
    ],
    "ru": [
        "Я не знаю.",
        "У меня нет информации об этом.",
        "В документах об этом ничего не сказано.",
        "В тексте не указана цена.",
        "Документы не содержат этой информации.",
        "Я не могу ответить на этот вопрос.",
        "Информация отсутствует.",
        "Это не упоминается в предоставленных материалах.",
    ],
    "tr": [
        "Bilmiyorum.",
        "Bu bilgi belgelerde yer almıyor.",
        "Belgelerde bu konuda bilgi bulunmuyor.",
        "Bu soruyu yanıtlayamıyorum.",
        "Metinde fiyat belirtilmemiş.",
        "Bu konuda bilgim yok.",
    ],
    "zh": [
        "我不知道。",
        "文档中没有提到价格。",
        "根据所提供的资料，无法回答这个问题。",
        "抱歉，我没有找到相关信息。",
        "資料中未提及火星的價格。",
        "信息不足。",
    ],
    "ja": [
        "わかりません。",
        "資料には記載されていません。",
        "その情報は見つかりませんでした。",
        "ドキュメントには価格についての言及がありません。",
        "申し訳ありませんが、お答えできません。",
    ],
    "ko": [
        "모르겠습니다.",
        "문서에 언급되어 있지 않습니다.",
        "제공된 자료에서 찾을 수 없습니다.",
        "관련 정보가 없습니다.",
        "이 질문에는 답변할 수 없습니다.",
    ],
    "ar": [
        "لا أعرف.",
        "لا توجد معلومات عن ذلك في الوثائق.",
        "الوثائق لا تذكر السعر.",
        "لم أجد هذه المعلومة.",
        "لا أستطيع الإجابة عن هذا السؤال.",
    ],
}

# Answers: each denies something, and none is about the material.
ANSWERS = {
    "en": [
        "",
        "Yes, since 4.2.",
        "MongoDB does not provide joins across shards; use $lookup.",
        "You do not need an index for that.",
        "No. The driver cannot be used in a browser.",
        "Set it to 5. It runs on Linux. The pages do not mention Windows.",
        "A field that is not found returns null.",
        "Nothing: dogs are not allowed.",
        "None of the plans includes a refund.",
        "It is not 5123, it is 8080.",
        "The warranty does not cover water.",
        "Beyond 30 days no refund is given.",
        "The server has no port open by default.",
        "According to the manual, it is 5123, not 8080.",
        "The document says: no dogs.",
        "The contract does not include insurance.",
    ],
    "de": [
        "Das kann man nicht ändern.",
        "Nein, Hunde sind nicht erlaubt.",
        "Der Port ist nicht 5123, sondern 8080.",
        "Die Garantie gilt nicht für Wasserschäden.",
        "Es gibt keine Rückerstattung.",
        "In dem Handbuch steht 5123, nicht 8080.",
        "Im Text steht: nicht vor dem 1. Mai.",
        "Der Server startet nicht ohne Lizenz.",
    ],
    "fr": [
        "Non, les chiens ne sont pas admis.",
        "Le port n'est pas 5123 mais 8080.",
        "Le serveur ne démarre pas sans licence.",
    ],
    "es": ["No se puede usar con índices.", "No, los perros no están permitidos.", "El puerto no es 5123, es 8080."],
    "it": ["No, i cani non sono ammessi.", "La porta non è 5123 ma 8080."],
    "pt": ["Não, cães não são permitidos.", "A porta não é 5123, é 8080."],
    "nl": ["Nee, honden zijn niet toegestaan.", "De poort is niet 5123 maar 8080."],
    "sv": ["Nej, hundar är inte tillåtna.", "Porten är inte 5123 utan 8080."],
    "da": ["Nej, hunde er ikke tilladt.", "Porten er ikke 5123, men 8080."],
    "no": ["Nei, hunder er ikke tillatt."],
    "fi": ["Ei, koirat eivät ole sallittuja.", "Portti ei ole 5123 vaan 8080."],
    "pl": ["Nie, psy nie są dozwolone.", "Port to nie 5123, lecz 8080."],
    "ru": ["Нет, собакам вход запрещён.", "Порт не 5123, а 8080."],
    "tr": ["Hayır, köpeklere izin verilmez.", "Port 5123 değil, 8080."],
    "zh": ["不，狗不能进入。", "端口不是5123，而是8080。"],
    "ja": ["いいえ、犬は入れません。", "ポートは5123ではなく8080です。"],
    "ko": ["아니요, 개는 들어올 수 없습니다.", "포트는 5123이 아니라 8080입니다."],
    "ar": ["لا، الكلاب غير مسموح بها.", "المنفذ ليس 5123 بل 8080."],
}  # fmt: skip


@all_rows(("language", "answer"), [(name, each) for name, rows in REFUSALS.items() for each in rows])
def test_refusals_are_seen(language: str, answer: str) -> None:
    assert refuses(answer), language


@all_rows(("language", "answer"), [(name, each) for name, rows in ANSWERS.items() for each in rows])
def test_answers_that_deny_something_are_no_refusals(language: str, answer: str) -> None:
    assert not refuses(answer), language


def test_only_the_first_sentences_refuse() -> None:
    assert refuses("Good question. I do not know.")
    assert not refuses("It is 5. It runs on Linux. I do not know about Windows.")
    assert not refuses("价格是5元。在Linux上运行。我不知道其他系统。")


def test_a_long_answer_without_end_is_searched_in_time_that_grows_with_its_length() -> None:
    assert not refuses("die Unterlagen " * 20_000)
