"""Whether an answer refuses to answer, by its first words, in the most used languages of docs/use/your-documents.md.

Only the first sentences are searched: an answer that ends with "the pages do not mention Windows" has answered. "X does
not include Y" is an answer, too, unless X is the material.
"""

import re

_REFUSED_WITHIN = 2  # sentences
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")

_ENGLISH_MATERIAL = (
    r"(?:context|documents?|documentation|passages?|texts?|sources?|pages?|materials?|excerpts?|references?|article"
    r"|information|question|knowledge\ base|handbook|manual|files?|snippets?|data|content)"
)
_ENGLISH_SAY = (
    r"(?:mention|contain|say|state|specif|provid|includ|cover|answer|describ|giv|address|discuss|tell|refer|list|show"
    r"|explain|indicat)"
)
_GERMAN_MATERIAL = (
    r"(?:unterlagen|dokument\w*|text\w*|quelle\w*|kontext\w*|material\w*|auszüge\w*|auszug\w*|passage\w*|seite\w*"
    r"|abschnitt\w*|information\w*|handbuch\w*|angaben|artikel\w*)"
)
_FRENCH_MATERIAL = (
    r"(?:documents?|documentation|textes?|passages?|sources?|contexte|pages?|extraits?|informations?|manuel|article)"
)
_SPANISH_MATERIAL = (
    r"(?:documentos?|documentación|textos?|pasajes?|fuentes?|contexto|páginas?|fragmentos?|materiales?|información"
    r"|manual|artículo)"
)
_ITALIAN_MATERIAL = (
    r"(?:document[oi]|documentazione|test[oi]|passaggi|brani|font[ei]|contesto|pagin[ae]|estratt[oi]|material[ei]"
    r"|informazioni|manuale)"
)
_PORTUGUESE_MATERIAL = (
    r"(?:documentos?|documentação|textos?|passagens|trechos?|fontes?|contexto|páginas?|materia(?:l|is)|informações"
    r"|informação|manual)"
)
_DUTCH_MATERIAL = (
    r"(?:document\w*|tekst\w*|bron\w*|passage\w*|context|pagina\w*|fragment\w*|materiaal|informatie"
    r"|handleiding)"
)
_NORDIC_MATERIAL = (
    r"(?:dokument\w*|text\w*|tekst\w*|käll\w+|kilde\w*|passag\w*|avsnitt\w*|afsnit\w*|kontext\w*|kontekst\w*"
    r"|sammanhang\w*|sidor\w*|sider\w*|material\w*|materialet|information\w*|informasjon\w*"
    r"|handbok\w*|håndbok\w*|håndbog\w*)"
)
_FINNISH_MATERIAL = (
    r"(?:asiakirj\w+|dokument\w+|tekst\w+|läht\w+|aineisto\w*|konteksti\w*|kappale\w*|katkelm\w+"
    r"|sivu\w*|tiedo\w*)"
)
_POLISH_MATERIAL = r"(?:dokument\w*|tekst\w*|źród\w+|fragment\w*|kontek\w+|stron\w*|materia\w*|informacj\w*)"
_RUSSIAN_MATERIAL = (
    r"(?:документ\w*|текст\w*|источник\w*|контекст\w*|отрывк\w*|фрагмент\w*|страниц\w*|материал\w*"
    r"|информаци\w*|справочник\w*)"
)
_TURKISH_MATERIAL = (
    r"(?:belge\w*|metin\w*|metn\w*|kaynak\w*|kaynağ\w*|bağlam\w*|pasaj\w*|sayfa\w*|bölüm\w*"
    r"|doküman\w*|bilgi\w*)"
)

_ENGLISH = rf"""
    \b(i|we)\ (do\ not|don't|cannot|can't|can\ not|could\ not|couldn't|did\ not|didn't|am\ not\ able\ to
        |am\ unable\ to
        |was\ unable\ to|was\ not\ able\ to|wasn't\ able\ to)\ (\w+\ ){{0,2}}
        (know|have|find|see|answer|determine|tell|confirm|say|provide|locate|help)\b
    |\bi\ have\ no\ (\w+\ )?(idea|information|knowledge|details?|data|answer|way)\b
    |\b(i\ am|i'm|we\ are|we're)\ (\w+\ )?(not\ (sure|certain|aware)|unaware|unable\ to|not\ able\ to|sorry)\b
    |\b(unable|not\ able|not\ possible|impossible)\ to\ (answer|determine|find|say|tell|confirm|provide)\b
    |\b(cannot|can't|can\ not|could\ not|couldn't)\ be\ (\w+\ )?(answered|determined|found|inferred
        |derived)\ (\w+\ ){{0,3}}
        (?:{_ENGLISH_MATERIAL}\b|from|based)
    |\b(cannot|can't|can\ not)\ be\ (answered|determined)\b
    |\b(no|any)\ (\w+\ )?(information|mention|details?|answer)\ (\w+\ )?(about|on|of|regarding|for|available|to)\b
    |\bno\ (\w+\ )?(information|mention|details?|answer)\b[^,;:]{{0,60}}?\b(found|available|given
        |provided|{_ENGLISH_MATERIAL})\b
    |\b(none|neither|nothing)\ (of\ |in\ |from\ )?((the|these|those|your|my
        |any)\ )?(\w+\ ){{0,2}}{_ENGLISH_MATERIAL}\b
        [^,;:]{{0,40}}?\b({_ENGLISH_SAY}|is\ |are\ |has\ |have\ |about\b|on\b|regarding\b|relat|talk|deal|concern)
    |\bnothing\ (\w+\ )?(about|on|regarding)\b[^,;:]{{0,80}}?\b{_ENGLISH_MATERIAL}\b
    |\b{_ENGLISH_MATERIAL}\b[^,;:]{{0,60}}?\b(do|does|did|is|are|was|were)(\ not|n't)\ (\w+\ )?{_ENGLISH_SAY}
    |\b{_ENGLISH_MATERIAL}\b[^,;:]{{0,60}}?\b(lacks?|omits?|(is|are)\ silent|(has|have
        |contains?|makes?|gives?|provides?)\ (no|nothing))\b
    |\b(is|are|was|were)(\ not|n't)\ (\w+\ )?
        (mentioned|contained|stated|specified|provided|covered|described|given|found|addressed|discussed
        |available|included
        |listed|in|part\ of)\ (\w+\ ){{0,4}}{_ENGLISH_MATERIAL}\b
    |\b(not\ enough|insufficient)\ (information|context|detail|data)
    |\b(is|are|lies?|goes|falls)\ (\w+\ )?(beyond|outside)\ (\w+\ )?(what\ i\ (can|know
        |have)|my\ |(of\ )?the\ (\w+\ )?(scope|{_ENGLISH_MATERIAL}))
"""
_GERMAN = rf"""
    \bich\ (wei(ß|ss)|habe|finde|kenne|sehe|verfüge)\b[^,;:]{{0,60}}?\b(nicht|keine?\w*|nichts)\b
    |\b(wei(ß|ss)|finde)\ ich\b[^,;:]{{0,30}}?\b(nicht|nichts|keine?\w*)\b
    |\b(leider\ )?keine\w*\ (\w+\ )?(information|angabe|antwort|hinweis|auskunft|aussage)
    |\b(kann|können|konnte|lässt|lassen)\b[^,;:]{{0,80}}?\bnicht\ (\w+\ )?(beantwort|sagen|finden|angeben
        |entnehmen|entnommen
        |beantworten|ableiten|feststellen|bestimmen|ermitteln|weiterhelfen)
    |\b(geht|gehen|ergibt|ergeben)\b[^,;:]{{0,80}}?\b{_GERMAN_MATERIAL}[^,;:]{{0,30}}?\bnicht\b
    |\b(geht|gehen|ergibt|ergeben)\b[^,;:]{{0,30}}?\bnicht\b[^,;:]{{0,40}}?\b{_GERMAN_MATERIAL}
    |\b(steht|stehen|findet|finden|wird|werden|ist|sind|gibt)\b[^,;:]{{0,40}}?\b(nicht|nichts|keine?\w*)\b
        [^,;:]{{0,40}}?\b(in|im|aus|laut|zu)\b[^,;:]{{0,30}}?\b{_GERMAN_MATERIAL}
    |\b{_GERMAN_MATERIAL}\b[^,;:]{{0,60}}?\b(enthält|enthalten|erwähn\w+|nenn\w+|sag\w+|beantwort\w+
        |beschreib\w+|beinhalt\w+
        |geben|gibt|steht|stehen|macht|machen)\b[^,;:]{{0,60}}?\b(nicht|nichts|keine?\w*)\b
    |\b(in|aus)\ (den|dem|der|diesen)\ (\w+\ )?{_GERMAN_MATERIAL}\b[^,;:]{{0,40}}?\b(steht|stehen|findet|finden
        |gibt|wird|ist|geht|lässt|ergibt)\b[^,;:]{{0,40}}?
        \b(nicht|nichts|keine?\w*)\b
    |\b(enthält|enthalten|erwähn\w+|nenn\w+|beantwort\w+|beinhalt\w+)\b[^,;:]{{0,20}}?\b{_GERMAN_MATERIAL}\b
        [^,;:]{{0,60}}?\b(nicht|nichts|keine?\w*)\b
    |\b(steht|stehen|wird|werden|ist|sind)\b[^,;:]{{0,40}}?\b(in|im|aus)\b[^,;:]{{0,30}}?\b{_GERMAN_MATERIAL}\b
        [^,;:]{{0,20}}?\b(nicht|nichts|keine?\w*)\b
    |\bdazu\ (liegen|liegt|habe|finde|steht|gibt)\b[^,;:]{{0,30}}?\b(nicht|nichts|keine?\w*)\b
"""
_FRENCH = rf"""
    \bje\ (ne|n')\ ?(sais|peux|trouve|dispose|vois|connais|ai|suis|possède|parviens)\b[^,;:]{{0,30}}?\b(pas
        |aucune?|rien)\b
    |\baucune?\ (\w+\ )?(information|mention|donnée|précision|réponse|élément|indication)
    |\b(ne|n')\ ?(\w+\ )?(mentionn|contien|précis|indiqu|fourni|dis|dit|répond|parle|donne|comport|inclu|évoqu
        |aborde|traite)\w*
        \b[^,;:]{{0,20}}?\b(pas|aucune?|rien)\b
    |\b{_FRENCH_MATERIAL}\b[^,;:]{{0,40}}?\b(ne|n')\ ?\w+[^,;:]{{0,30}}?\b(pas|aucune?|rien)\b
    |\b(n'est|ne\ sont|n'a|n'ont|ne\ figure\w*|n'apparaî\w+|ne\ se\ trouve\w*)\b[^,;:]{{0,10}}?\bpas\b
        [^,;:]{{0,60}}?\b{_FRENCH_MATERIAL}\b
    |\b(il\ n'est\ pas|impossible)\ (\w+\ )?(possible\ )?de\ (répondre|dire|déterminer|trouver|savoir)
    |\brien\b[^,;:]{{0,40}}?\b(dans|sur)\b[^,;:]{{0,40}}?\b{_FRENCH_MATERIAL}\b
"""
_SPANISH = rf"""
    \bno\ (lo\ )?sé\b
    |\bno\ (puedo|podemos|pude|logro|consigo|es\ posible)\ (\w+\ )?(responder|decir|encontrar|determinar
        |contestar|saber|confirmar|ayudar)
    |\bno\ (dispongo|tengo|cuento|encuentro|encontré|he\ encontrado|hallo|veo|conozco|disponemos|tenemos)\b
        [^,;:]{{0,40}}?
        \b(informaci|dato|detalle|respuesta|conocimiento|nada|mención|referencia|{_SPANISH_MATERIAL})
    |\bno\ (hay|existe|se\ encuentra|aparece)\b[^,;:]{{0,40}}?\b(informaci|mención|dato|detalle|respuesta
        |referencia|{_SPANISH_MATERIAL})
    |\bno\ (se\ )?(\w+\ )?(menciona|indica|especifica|encuentra|dice|describe|detalla|explica|aparece|figura
        |consta|está)\w*
        \b[^,;:]{{0,60}}?\b(en|de)\ (el|la|los|las|estos|este)\b[^,;:]{{0,30}}?\b{_SPANISH_MATERIAL}\b
    |\b{_SPANISH_MATERIAL}\b[^,;:]{{0,40}}?\bno\ (se\ )?(menciona|contiene|indica|especifica|dice|incluye
        |proporciona|responde|
        describe|habla|ofrece|da|detalla|aborda|cubre|trata|hace)\w*
    |\b(ningun[oa]|nada)\b[^,;:]{{0,40}}?\b{_SPANISH_MATERIAL}\b
    |\bdesconozco\b
"""
_ITALIAN = rf"""
    \bnon\ (lo\ )?(so|saprei)\b
    |\bnon\ (posso|riesco|sono\ in\ grado|è\ possibile|ho\ potuto)\ (\w+\ ){{0,2}}(rispondere|dire|trovare
        |determinare|stabilire|sapere|dirlo)
    |\bnon\ (dispongo|ho|trovo|abbiamo|conosco|vedo|possiedo)\b[^,;:]{{0,30}}?\b(informazion|dat[io]|dettagli
        |risposta|trovato|nulla|{_ITALIAN_MATERIAL})
    |\bnon\ (c'è|ci\ sono|esiste|è\ presente|sono\ presenti|risulta\w*)\b[^,;:]{{0,40}}?\b(informazion
        |dat[io]|dettagli|risposta|menzione|{_ITALIAN_MATERIAL})
    |\b{_ITALIAN_MATERIAL}\b[^,;:]{{0,40}}?\bnon\ (\w+\ )?(menziona|conten|contien|indica|specifica|dic|include
        |includono|fornisc|rispond|descriv|parla|tratta|riporta)\w*
    |\bnon\ (è|sono|viene|vengono|si\ trova|compare|figura|risulta)\b[^,;:]{{0,40}}?\b(nei|nel|nella|nelle|dai
        |dal|dalle|dalla|in)\b[^,;:]{{0,30}}?\b{_ITALIAN_MATERIAL}\b
    |\bnessun[oa']?\b[^,;:]{{0,30}}?\b(informazion|{_ITALIAN_MATERIAL})
"""
_PORTUGUESE = rf"""
    \bnão\ (o\ )?sei\b
    |\bnão\ (posso|consigo|pude|foi\ possível|é\ possível|consegui)\ (\w+\ ){{0,2}}(responder|dizer|encontrar
        |determinar|localizar|saber|confirmar)
    |\bnão\ (tenho|disponho|encontrei|encontro|possuo|temos|vejo|conheço)\b[^,;:]{{0,40}}?\b(informaç|dado
        |detalhe|resposta|nada|{_PORTUGUESE_MATERIAL})
    |\bnão\ (há|existe|existem|consta|constam)\b[^,;:]{{0,40}}?\b(informaç|menção|dado|detalhe
        |resposta|{_PORTUGUESE_MATERIAL})
    |\b{_PORTUGUESE_MATERIAL}\b[^,;:]{{0,40}}?\bnão\ (\w+\ )?(menciona|cont[eéê]m|indica|especifica|diz|inclu
        |fornec|respond|descrev|fala|trata|traz|aborda)\w*
    |\bnão\ (é|são|está|estão|foi|aparece|se\ encontra|consta)\b[^,;:]{{0,40}}?\b(nos|no|nas|na|dos|do|em)\b
        [^,;:]{{0,30}}?\b{_PORTUGUESE_MATERIAL}\b
    |\bnenhum[a]?\b[^,;:]{{0,30}}?\b(informaç|{_PORTUGUESE_MATERIAL})
"""
_DUTCH = rf"""
    \bik\ (weet|kan|kon|vind|heb|zie|beschik)\b[^,;:]{{0,60}}?\b(niet|geen|niets)\b
    |\b(dat|dit|die)\ (weet|kan)\ ik\b[^,;:]{{0,40}}?\bniet\b
    |\bgeen\ (\w+\ )?(informatie|antwoord|gegevens|vermelding|details)\b
    |\b(staat|staan|wordt|worden|is|zijn|blijkt)\b[^,;:]{{0,40}}?\b(niet|niets|geen)\b[^,;:]{{0,40}}?\b(in
        |uit)\b[^,;:]{{0,30}}?\b{_DUTCH_MATERIAL}\b
    |\b{_DUTCH_MATERIAL}\b[^,;:]{{0,50}}?\b(bevat\w*|vermeld\w*|noem\w*|zegg\w*|zegt|beschrijv\w*|geeft|geven
        |staat|staan|beantwoord\w*)\b[^,;:]{{0,50}}?\b(niet|niets|geen)\b
"""
_NORDIC = rf"""
    \b(jag|jeg)\ (vet|ved|vet|hittar|finder|finner|har|kan|kunde|ser|hittade|fandt|fant)\b[^,;:]{{0,50}}?\b(inte
        |ikke|ingen|inga|inget|intet|ingenting)\b
    |\b(det|dette|detta)\ (vet|ved|kan)\ (jag|jeg)\b[^,;:]{{0,30}}?\b(inte|ikke)\b
    |\b(ingen|inga|ikke\ nogen|ikke\ noen)\ (\w+\ )?(information|informasjon|oplysning|opplysning|uppgift|svar)
    |\b(står|finns|findes|finnes|nämns|nævnes|nevnes|framgår|fremgår|anges|angives|oppgis|beskrivs|beskrives|är
        |er)\b[^,;:]{{0,30}}?\b(inte|ikke|ingen|inget|intet)\b[^,;:]{{0,40}}?\b{_NORDIC_MATERIAL}\b
    |\b{_NORDIC_MATERIAL}\b[^,;:]{{0,40}}?\b(innehåller|indeholder|inneholder|nämner|nævner|nevner|säger|siger
        |sier|beskriver|anger|angiver|oppgir|besvarar|besvarer|ger|giver|gir)\b[^,;:]{{0,30}}?\b(inte|ikke|ingen
        |inget|intet|inga)\b
"""
_FINNISH = rf"""
    \ben\ (tiedä|osaa|löydä|löytänyt|pysty|voi|näe)\b
    |\b(minulla|meillä)\ ei\ ole\b[^,;:]{{0,30}}?\b(tieto|vastaus)
    |\bei\ (ole\ )?(\w+\ )?(mainit|kerro|löydy|sisällä|vasta|käy|ilme|käsitel|mainittu|kerrottu|riittävästi)\w*
        [^,;:]{{0,60}}?
    \b{_FINNISH_MATERIAL}
    |\b{_FINNISH_MATERIAL}[^,;:]{{0,50}}?\bei(vät)?\ (\w+\ )?(main|kerro|löydy|sisäll|vasta|käsi|käy|ilme|ole)\w*
"""
_POLISH = rf"""
    \bnie\ (wiem|znam)\b
    |\bnie\ (mogę|potrafię|udało\ mi\ się|jestem\ w\ stanie|da\ się|można|znalazłem|znalazłam|znajduję|mam
        |posiadam|dysponuję)\b[^,;:]{{0,40}}?
        \b(odpowied|powiedzieć|znaleźć|informacj|określić|stwierdzić|ustalić|dan|wiedzy)
    |\bbrak\ (\w+\ )?(informacji|danych|odpowiedzi|wzmianki)
    |\bnie\ (ma|zawiera\w*|wspomina\w*|podaj\w*|określa\w*|mówi\w*|opisuj\w*|odpowiada\w*|wynika|jest|zawarto)\b
        [^,;:]{{0,50}}?\b{_POLISH_MATERIAL}
    |\b{_POLISH_MATERIAL}[^,;:]{{0,40}}?\bnie\ (ma|zawiera\w*|wspomina\w*|podaj\w*|określa\w*|mówi\w*|opisuj\w*
        |odpowiada\w*|znajdzi\w*|znajduj\w*)
"""
_RUSSIAN = rf"""
    \b(я\ )?не\ (знаю|могу\ (\w+\ )?(ответить|сказать|найти|определить|помочь)|нашёл|нашел|нашла|вижу|располагаю
        |обладаю|удалось\ найти)
    |\bу\ меня\ нет\b[^,;:]{{0,30}}?\b(информац|данных|сведений|ответа)
    |\b(нет|отсутству\w+|недостаточно)\ (\w+\ )?(информац|данных|сведений|упоминан|ответ)
    |\b{_RUSSIAN_MATERIAL}[^,;:]{{0,60}}?\b(не\ (\w+\ )?(упомина|содерж|указ|говор|сообща|описы|отвеча|привод
        |найд|наход)\w*|нет\b|отсутству\w+|ничего)
    |\bне\ (упомина|содерж|указ|говор|сообща|описы|привод|встреча|следует|сказано)\w*\b
        [^,;:]{{0,50}}?\b{_RUSSIAN_MATERIAL}
    |\bневозможно\ (ответить|определить|сказать|установить)
"""
_TURKISH = rf"""
    \b(bilmiyorum|bilemiyorum|bulamadım|bulamıyorum|cevaplayamıyorum|yanıtlayamıyorum|cevap\ veremiyorum
        |yanıt\ veremiyorum|söyleyemiyorum)\b
    |\b(bilgi|cevap|yanıt|veri)\w*\ (\w+\ ){{0,2}}(yok\w*|bulunm\w+|mevcut\ değil|verilm\w+)
    |\b{_TURKISH_MATERIAL}[^,;:]{{0,60}}?\b(belirtilm\w+|bahsed\w*lm\w+|bahsetm\w+|yer\ alm\w+|bulunm\w+
        |içerm\w+|geçm\w+|yok\w*|değinilm\w+|açıklanm\w+)
"""
_CHINESE = r"""
    (我|本人)?(不知道|无法(回答|确定|得知|提供|找到|判断)|無法(回答|確定|得知|提供|找到|判斷)|不清楚|不了解)
    |(没有|沒有|未|並未|并未|无|無)[^。，,]{0,12}?(提到|提及|说明|說明|包含|找到|相关信息|相關資訊|相关内容|相關內容|信息|資訊|涉及|记载|記載|给出|給出|答案)
    |(信息|資訊|资料|資料|内容)不足
"""
_JAPANESE = r"""
    (わかりません|分かりません|判りません|お答えできません|回答できません|答えられません|判断できません|不明です|存じません
    |(見つかり|見当たり|ござい|含まれてい|記載されてい|書かれてい|言及されてい|述べられてい|示されてい|触れられてい)ません
    |(記載|言及|情報|記述|説明)(は|が|も)?(あり|ござい|見当たり|見つかり)ません|(記載|言及|情報|記述)がない|情報が不足)
"""
_KOREAN = r"""
    (모르겠|알\ 수\ (없|가\ 없)|모릅니다
    |찾을\ 수\ (없|가\ 없)
    |답변(할|드릴)\ 수\ (없|가\ 없)|답할\ 수\ (없|가\ 없)|확인할\ 수\ (없|가\ 없)
    |(언급|포함|명시|기재|설명|나와|제공|서술)(되어|돼|되지|하지|하고)?\ ?(있지|않)
    |(정보|내용|언급|설명|답변?)(은|는|이|가)?\ (없|부족|포함되어\ 있지))
"""
_ARABIC = r"""
    (لا\ (أعرف|أعلم|أدري|أستطيع|يمكنني|أملك|تتوفر|يتوفر|توجد|يوجد|تحتوي|يحتوي|تذكر|يذكر|تشير|يشير|تتضمن|يتضمن)
    |لم\ (أجد|أتمكن|يذكر|تذكر|يرد|ترد|يتم\ ذكر|أعثر)|ليس(ت)?\ (لدي|لديّ|هناك|مذكور)|غير\ (مذكور|متوفر|موجود|محدد))
"""
_LANGUAGES = (
    _ENGLISH, _GERMAN, _FRENCH, _SPANISH, _ITALIAN, _PORTUGUESE, _DUTCH, _NORDIC, _FINNISH, _POLISH, _RUSSIAN,
    _TURKISH, _CHINESE, _JAPANESE, _KOREAN, _ARABIC,
)  # fmt: skip
_EVERY = re.compile("|".join(_LANGUAGES), re.VERBOSE | re.IGNORECASE)


def refuses(answer: str) -> bool:
    """Whether an answer begins with a refusal. The model's thoughts are not part of an answer."""
    sentences = [part for part in _SENTENCE_END.split(answer.replace("’", "'").strip()) if part and part.strip()]
    return bool(_EVERY.search(" ".join(" ".join(sentences[:_REFUSED_WITHIN]).split())))
