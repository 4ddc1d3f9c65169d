"""Lines of small talk, and lines that look alike and ask for something; older than the lists of `small_talk.yaml`."""

SMALL_TALK = {
    "en": """
        Thanks!
        thank you so much
        ok thanks
        Great, thank you very much for your help!
        cheers mate
        thx
        ty :)
        Perfect, that's exactly what I needed. Thanks!
        awesome!!
        Got it, thanks a lot
        I see.
        Makes sense
        good morning
        Hi there
        hello again
        Bye!
        see you tomorrow
        have a nice day
        Good night, and thanks again
        lol
        hahaha
        haha nice one
        cool cool
        ok
        Okay.
        alright
        wow
        you're welcome
        No worries
        that was helpful
        Much appreciated
        never mind
        that's all for now
        You're the best!
        how are you?
        👍
        🙏🙏
        :)
        ❤️ thanks
        Nice to meet you
        Have a great weekend!
        oh ok
        hmm
        sorry
        Thank you, that helped a lot.
        """,
    "de": """
        Danke!
        Vielen Dank für deine Hilfe
        danke schön
        Super, danke dir
        alles klar
        Ok, verstanden
        Guten Morgen
        Hallo!
        Tschüss
        Auf Wiedersehen und schönen Tag noch
        bis morgen
        Prima
        Perfekt, genau das habe ich gesucht
        haha
        Gern geschehen
        Schönes Wochenende!
        Das war's, danke.
        Passt
        """,
    "fr": """
        Merci !
        merci beaucoup pour votre aide
        Super, merci
        D'accord
        Parfait
        bonjour
        Salut
        Au revoir
        bonne journée
        À bientôt
        je vois
        Ok c'est noté
        mdr
        C'est gentil
        Bonne soirée et merci encore
        génial
        """,
    "es": """
        ¡Gracias!
        muchas gracias por tu ayuda
        Perfecto, gracias
        vale
        Entendido
        Hola
        Buenos días
        Adiós
        hasta luego
        jajaja
        Que tengas un buen día
        genial
        de nada
        Muy amable
        ok, gracias
        """,
    "it": """
        Grazie!
        grazie mille per l'aiuto
        Perfetto, grazie
        Va bene
        Capito
        Ciao
        Buongiorno
        Arrivederci
        a presto
        ahahah
        Buona giornata
        prego
        Ottimo
        """,
    "pt": """
        Obrigado!
        muito obrigada pela ajuda
        Perfeito, obrigado
        tá bom
        Entendi
        Olá
        Bom dia
        Tchau
        até logo
        kkkk
        Tenha um bom dia
        valeu
        de nada
        Ótimo
        """,
    "nl": """
        Bedankt!
        dank je wel voor je hulp
        Top, dankjewel
        oké
        Begrepen
        Hallo
        Goedemorgen
        Tot ziens
        doei
        Fijne dag nog
        graag gedaan
        Prima
        """,
    "ru": """
        Спасибо!
        большое спасибо за помощь
        Отлично, спасибо
        понятно
        Хорошо
        Привет
        Доброе утро
        До свидания
        пока
        ахаха
        Хорошего дня!
        благодарю
        ясно, спасибо
        пожалуйста
        """,
    "zh": """
        谢谢！
        非常感谢你的帮助
        好的，谢谢
        明白了
        知道了
        你好
        早上好
        再见
        拜拜
        哈哈哈
        太好了
        辛苦了
        不客气
        晚安
        嗯嗯
        多谢
        """,
    "ja": """
        ありがとう
        ありがとうございます！
        とても助かりました、ありがとうございました
        わかりました
        了解です
        こんにちは
        おはようございます
        さようなら
        またね
        笑
        なるほど
        お疲れ様です
        どういたしまして
        すごい
        """,
    "ko": """
        감사합니다!
        정말 고마워요
        네, 감사합니다
        알겠습니다
        안녕하세요
        안녕히 계세요
        잘 가
        ㅋㅋㅋ
        좋아요
        수고하세요
        천만에요
        도움이 됐어요, 고맙습니다
        """,
    "ar": """
        شكرا!
        شكرًا جزيلاً على مساعدتك
        حسنا
        تمام، شكرا
        مرحبا
        السلام عليكم
        صباح الخير
        مع السلامة
        إلى اللقاء
        ههههه
        ممتاز
        فهمت
        """,
    "hi": """
        धन्यवाद
        बहुत बहुत धन्यवाद
        शुक्रिया
        ठीक है
        अच्छा
        समझ गया
        समझ गई, धन्यवाद
        नमस्ते
        शुभ रात्रि
        बहुत बढ़िया
        हाहाहा
        ओके
        माफ़ कीजिए
        आपका दिन शुभ हो
        फिर मिलेंगे
        कमाल है
        अरे वाह
        मदद के लिए धन्यवाद
        सही है
        dhanyavaad
        theek hai
        आप कैसे हैं?
        """,
    "tr": """
        teşekkürler
        çok teşekkür ederim
        sağ ol
        tamam
        anladım
        tamam anladım teşekkürler
        harika
        günaydın
        iyi geceler
        hoşça kal
        görüşürüz
        hahaha
        selam
        kolay gelsin
        eyvallah
        süper
        rica ederim
        kusura bakma
        çok yardımcı oldun, sağ ol
        nasılsın?
        peki
        eline sağlık
        """,
}

# Each needs the passages of the conversation, whatever came before.
FOLLOW_UPS = """
    ok cool, how
    i'll try that how
    super, was
    कल
    हाँ
    नहीं
    क्यों
    और
    फिर
    ठीक है और
    और बताओ
    समझ नहीं आया
    acha aur
    kal
    evet
    hayır
    neden
    devam
    daha
    sonra
    peki ya köpekler
    tamam ama neden
    anlamadım
    ❓
    thanks ❔
    कैसे
    nasıl
    ok peki kışın
    yes
    Yes, please
    no
    No, the other one
    the first one
    The second, please
    both
    and in 2021?
    ok, and what about dogs?
    thanks, and what if it fails?
    Thank you. How much is it?
    great, how do I start
    ok?
    why?
    really?
    ?
    ???
    how
    more
    tell me more
    go on
    continue
    please continue
    explain
    again please
    repeat that
    an example
    in German
    shorter
    thanks to whom
    Which one is cool?
    hello world in Kotlin
    is that good
    not good enough
    that is wrong
    I don't understand
    what is a thank you page
    how to say goodbye in Norwegian
    ok google
    the best
    42
    2
    b
    Oslo
    IT
    good night rate
    nice hotels
    the morning one
    have you got it in blue
    Perfect tense
    sorry, I meant the tall one
    how are you licensed?
    ja
    nein
    doch
    ja, bitte
    das erste
    und danach?
    danke, und wie lange dauert es
    warum
    oui
    non
    le premier
    et après ?
    merci, mais pourquoi
    sí
    sí, por favor
    la primera
    ¿por qué?
    gracias, ¿y después?
    sì
    perché
    il primo
    sim
    não
    por quê
    o primeiro
    nee
    waarom
    de eerste
    да
    нет
    почему
    первый
    спасибо, а сколько это стоит
    是
    不是
    为什么？
    第一个
    谢谢，那多少钱
    好的，然后呢
    はい
    いいえ
    なぜ
    最初の
    ありがとう、でもいつですか
    네
    아니요
    왜
    첫 번째
    نعم
    لا
    لماذا
    الأول
    """

AGREEMENT = """
    ok
    ok, please
    Okay, do that
    sure
    sounds good
    great
    👍
    alright
    fine
    perfect
    gerne
    in Ordnung
    d'accord
    vale
    va bene
    хорошо
    好的
    わかりました
    좋아요
    حسنا
    """  # to an open question of the assistant

# Short turns that continue a conversation, and have words of the lists.
CONTINUED = """
    ok and then
    ok and now
    great, and tomorrow
    ok weiter
    ok, und dann
    gut, und morgen
    ok noch mal
    ok encore
    d'accord, et maintenant
    vale y entonces
    ok, otra vez
    va bene, e domani
    ok, de novo
    goed, en nu
    хорошо, а сейчас
    ок, еще раз
    好的，今天呢
    好的，再来一次
    わかりました、では明日は
    알겠어요 그럼 내일은
    حسنا، والآن
    of course
    对
    はい、そうです
    конечно
    """


# By language: courtesies behind an answer, and follow-ups without question marks.

CHAT = {
    "en": """
        thanks a ton, that cleared it all up / brilliant, you saved me hours / ok I'll give that a go now / legend,
        cheers / perfect, exactly what I was after / that makes a lot more sense now / have a lovely rest of your
        day / off to bed, night / yep that's it, thanks / nope, that's all I needed / you've been super helpful /
        really appreciate your patience / great explanation, thank you / wow that was quick / awesome, it works now
        / sweet, thx / oh I see, got it / haha love it / right, back to work / catch you later / that's so kind of
        you / I owe you one / much clearer now, ta / noted, will try it / ahh ok that explains it / phew, what a
        relief / good to know, thanks mate / you're a star / problem solved, bye / this is really useful / thanks
        again and have a good weekend / couldn't have asked for more / nice talking to you
        """,
    "de": """
        super erklärt, vielen dank / ok, ich probier das mal aus / perfekt, das hat mir echt weitergeholfen / jetzt
        ist alles klar / danke für die schnelle antwort / du hast mir den tag gerettet / bis morgen dann / schönen
        abend noch / ach so, jetzt verstehe ich es / alles klar, danke dir / das wars für heute / gute nacht und
        danke / genial, genau das brauchte ich / cool, das klappt jetzt / haha, sehr gut / vielen lieben dank für
        deine geduld / keine weiteren fragen / sehr hilfreich, merci / top, mach ich / das ist wirklich nett von dir
        / klingt gut, ich teste das morgen / wieder was gelernt / prima, dann weiß ich bescheid / ich melde mich
        wieder / ok verstanden, danke / das freut mich sehr / lg und schönes wochenende
        """,
    "fr": """
        merci beaucoup pour ton aide précieuse / super, c'est très clair maintenant / d'accord, je vais essayer ça /
        parfait, c'est exactement ce que je voulais / tu m'as sauvé la vie / bonne soirée et à demain / ah ok je
        comprends mieux / génial, ça marche / merci pour votre réponse rapide / c'est noté, merci / trop bien, merci
        mille fois / bonne fin de journée / non c'est tout, merci / je vous remercie infiniment / très bonne
        explication / oh super, j'ai compris / mdr excellent / à la prochaine / tu es le meilleur / nickel, je teste
        demain / merci, c'est vraiment gentil / impeccable / j'adore / quelle efficacité, bravo / bon week-end à
        vous aussi
        """,
    "es": """
        muchísimas gracias por tu ayuda / genial, me ha quedado clarísimo / vale, lo pruebo ahora / perfecto, justo
        lo que necesitaba / me has salvado la vida / buenas noches y gracias / ah vale, ya lo entiendo / qué bien
        explicado / gracias por tu paciencia / eres un crack / hasta mañana / no tengo más dudas, gracias / ok, tomo
        nota / excelente explicación / ya funciona, gracias / que tengas un lindo día / muy claro todo / te lo
        agradezco mucho / jajaja buenísimo / eso es todo por hoy / gracias crack / me sirvió muchísimo / buen finde
        / listo, gracias / uf, qué alivio
        """,
    "it": """
        grazie mille per il tuo aiuto / perfetto, ora è tutto chiaro / ok, ci provo subito / esattamente quello che
        cercavo / mi hai salvato la vita / buona serata e grazie / ah ok, adesso ho capito / ottima spiegazione /
        grazie per la pazienza / sei un grande / a domani / non ho altre domande / va bene, lo provo domani /
        funziona, grazie / ti ringrazio tanto / gentilissimo come sempre / haha bellissimo / per oggi è tutto / buon
        weekend anche a te / molto chiaro, grazie / che sollievo / fantastico, grazie infinite / ci vediamo presto /
        tutto chiaro / grazie davvero
        """,
    "pt": """
        muito obrigado pela ajuda / perfeito, agora ficou tudo claro / ok, vou testar agora / era exatamente o que
        eu precisava / você salvou meu dia / boa noite e obrigada / ah tá, entendi / ótima explicação / obrigado
        pela paciência / você é demais / até amanhã / sem mais dúvidas, obrigado / beleza, vou tentar / funcionou,
        valeu / te agradeço muito / kkkk muito bom / por hoje é só / bom fim de semana pra você / ficou bem claro /
        que alívio / show, obrigado / faz todo sentido / foi um prazer / ajudou demais / valeu mesmo
        """,
    "nl": """
        heel erg bedankt voor je hulp / perfect, nu snap ik het / oké, ik ga het proberen / precies wat ik nodig had
        / je hebt me echt geholpen / fijne avond en bedankt / ah zo, duidelijk / goede uitleg / bedankt voor je
        geduld / je bent een held / tot morgen / geen vragen meer, dank je / top, ik ga het testen / het werkt,
        bedankt / dat was alles voor vandaag / haha mooi / fijn weekend / super duidelijk / wat een opluchting /
        dank je wel voor de snelle reactie / klinkt goed / weer wat geleerd / dat helpt enorm / lekker bezig / slaap
        lekker
        """,
    "ru": """
        огромное спасибо за помощь / отлично, теперь всё понятно / ок, попробую / это именно то, что я искал / вы
        меня очень выручили / спокойной ночи и спасибо / а, теперь понял / отличное объяснение / спасибо за терпение
        / ты лучший / до завтра / вопросов больше нет, спасибо / хорошо, проверю завтра / заработало, спасибо / на
        сегодня всё / ахах круто / хороших выходных / всё предельно ясно / какое облегчение / спасибо за быстрый
        ответ / звучит отлично / очень полезно / благодарю от всей души / класс, спасибо большое / всего доброго
        """,
    "zh": """
        太感谢你了 / 好的，我明白了 / 讲得很清楚，谢谢 / 我去试试 / 这正是我想要的 / 你帮了我大忙 /
        晚安，谢谢 / 哦，原来如此 / 解释得非常好 / 谢谢你的耐心 / 你太厉害了 / 明天见 /
        没有别的问题了，谢谢 / 收到，谢谢 / 问题解决了，感谢 / 今天就到这里吧 / 哈哈太棒了 / 周末愉快
        / 学到了 / 松了一口气 / 非常有帮助 / 好的，辛苦了 / 厉害厉害 / 懂了懂了 / 祝你一切顺利
        """,
    "ja": """
        本当に助かりました / なるほど、よくわかりました / 試してみます、ありがとう /
        まさに知りたかったことです / とてもわかりやすい説明でした / おやすみなさい、ありがとう /
        ああ、そういうことか / 丁寧な説明ありがとうございます / さすがですね / また明日 /
        もう大丈夫です、ありがとう / 了解しました、ありがとうございます / 解決しました /
        今日はこれで終わりです / すごい、感動しました / 良い週末を / 勉強になります / 安心しました /
        とても役に立ちました / はい、わかりました / やってみます / いつもありがとう / 完璧です /
        嬉しいです / お世話になりました
        """,
    "ar": """
        شكرا جزيلا على المساعدة / ممتاز، الآن كل شيء واضح / حسنا سأجرب ذلك / هذا بالضبط ما كنت أبحث عنه / لقد
        ساعدتني كثيرا / تصبح على خير وشكرا / آه الآن فهمت / شرح رائع / شكرا على صبرك / أنت الأفضل / أراك غدا / ليس
        لدي أسئلة أخرى شكرا / تمام وصلت الفكرة / اشتغل معي شكرا / هذا كل شيء اليوم / ههههه حلو / عطلة سعيدة / واضح
        جدا / الحمد لله / شكرا على سرعة الرد / جزاك الله كل خير / معلومة مفيدة / يعطيك العافية / بارك الله فيك /
        جميل جدا
        """,
    "hi": """
        आपकी मदद के लिए बहुत धन्यवाद / बढ़िया, अब सब साफ है / ठीक है, मैं कोशिश करता हूँ / मुझे यही चाहिए था / आपने
        मेरी बहुत मदद की / शुभ रात्रि और धन्यवाद / ओह, अब समझ आया / बहुत अच्छा समझाया / आपका बहुत आभार / आप कमाल हैं
        / कल मिलते हैं / और कोई सवाल नहीं, धन्यवाद / ठीक है, समझ गया / काम हो गया, शुक्रिया / आज के लिए बस इतना ही /
        वाह क्या बात है / बहुत उपयोगी जानकारी / सही कहा / राहत मिली / जल्दी जवाब देने के लिए धन्यवाद / bahut accha
        samjhaya / thanks bhai / ok samajh gaya / mast hai yaar / kal milte hain
        """,
}

ASKED = {
    "en": """
        thanks, and what if it fails / ok and in java / the second one / more please / that is not what i asked / it
        does not work / still wrong / great now in german / is that good / can you help me / ok now the quick answer
        / and for my dog / thanks but i need the link / what about sunday / ok try that in python / does it help /
        is it easy / did you try it / ok explain it / the other one / great, and the fee / shorter please / thanks,
        how long / yes / no / yes please / again / are you sure / that makes no sense / not clear / i have not tried
        it / ok and now / great, tomorrow / super, was / and then / help / the best one / ok better / i don't get it
        / why is that / both / thanks, which one
        """,
    "de": """
        danke, und was wenn es nicht klappt / ok und in java / das zweite / mehr bitte / das war nicht meine frage /
        es funktioniert nicht / immer noch falsch / super, jetzt auf englisch / ist das gut / kannst du mir helfen /
        ok jetzt / und morgen / geht das auch billiger / wie lange / danke, aber warum / noch eins / ja / nein / ja
        bitte / nochmal / bist du sicher / das ist unklar / nicht verstanden / hat das geholfen / erkläre das / und
        dann / was noch / die andere / ok kürzer / gut, und die gebühr
        """,
    "fr": """
        merci, et si ça échoue / ok et en java / le deuxième / encore / ce n'est pas ma question / ça ne marche pas
        / toujours faux / super, maintenant en anglais / est ce que c'est bon / peux tu m'aider / ok et maintenant /
        et demain / combien de temps / merci mais pourquoi / oui / non / oui s'il te plaît / l'autre / tu es sûr /
        pas clair / je n'ai pas compris / explique / et après / plus court / d'accord et le prix / donne un exemple
        / lequel / les deux / et pour moi
        """,
    "es": """
        gracias, y si falla / ok y en java / el segundo / más por favor / eso no es lo que pregunté / no funciona /
        sigue mal / genial, ahora en inglés / puedes ayudarme / vale y ahora / y mañana / cuánto tiempo / gracias
        pero por qué / sí / no / sí por favor / el otro / estás seguro / no está claro / no entiendo / explícalo / y
        después / más corto / vale y el precio / dame un ejemplo / cuál / los dos / y para mí / otra vez / qué más
        """,
    "it": """
        grazie, e se fallisce / ok e in java / il secondo / ancora / non è quello che ho chiesto / non funziona /
        ancora sbagliato / ottimo, ora in inglese / puoi aiutarmi / ok e adesso / e domani / quanto tempo / grazie
        ma perché / sì / no / sì per favore / l'altro / sei sicuro / non è chiaro / non ho capito / spiegalo / e
        dopo / più corto / va bene e il prezzo / un esempio / quale / tutti e due / e per me / cos'altro
        """,
    "pt": """
        obrigado, e se falhar / ok e em java / o segundo / mais por favor / não foi isso que perguntei / não
        funciona / ainda errado / ótimo, agora em inglês / pode me ajudar / ok e agora / e amanhã / quanto tempo /
        obrigado mas por quê / sim / não / sim por favor / o outro / tem certeza / não está claro / não entendi /
        explique / e depois / mais curto / beleza e o preço / um exemplo / qual / os dois / e para mim / de novo
        """,
    "nl": """
        bedankt, en als het mislukt / ok en in java / de tweede / meer graag / dat vroeg ik niet / het werkt niet /
        nog steeds fout / mooi, nu in het engels / kun je me helpen / ok en nu / en morgen / hoe lang / bedankt maar
        waarom / ja / nee / ja graag / de andere / weet je het zeker / niet duidelijk / ik snap het niet / leg uit /
        en dan / korter / goed en de prijs / een voorbeeld / welke / allebei / en voor mij / is dat goed / lukt dat
        """,
    "ru": """
        спасибо, а если не получится / ок а на java / второй / ещё / я не это спросил / не работает / всё ещё
        неправильно / отлично, теперь на английском / помоги мне / ок и теперь / а завтра / как долго / спасибо, но
        почему / да / нет / да, пожалуйста / другой / ты уверен / не понятно / я не понял / объясни / и потом /
        короче / хорошо, а цена / пример / какой / оба / а мне / подробнее / что ещё
        """,
    "zh": """
        谢谢，如果失败呢 / 好的，用java呢 / 第二个 / 再来一个 / 这不是我问的 / 不行 / 还是错的
        / 很好，现在用英文 / 帮帮我 / 好，那现在 / 好的，明天呢 / 多久 / 谢谢，为什么 / 是 /
        不是 / 是的，请继续 / 另一个 / 你确定吗 / 不清楚 / 我不明白 / 解释一下 / 然后 /
        短一点 / 好的，价格 / 举个例子 / 哪个 / 两个都要 / 给我看看 / 详细一点 / 还有呢 /
        谢谢，说明
        """,
    "ja": """
        ありがとう、失敗したら / では javaで / 二番目 / もっと / それは聞いていません /
        動きません / まだ間違っています / いいね、次は英語で / 手伝ってください / では今は / 明日は
        / どのくらい / ありがとう、なぜ / はい / いいえ / はい、お願いします / 別の / 本当ですか
        / わかりません / 説明して / それから / 短く / 了解、料金は / 例を / どれ / 両方 /
        私には / 詳しく / 他には / ありがとう、説明
        """,
    "ar": """
        شكرا وماذا لو فشل / طيب وفي جافا / الثاني / المزيد / ليس هذا ما سألت / لا يعمل / ما زال خطأ / ممتاز الآن
        بالإنجليزية / ساعدني من فضلك في هذا / حسنا والآن / وغدا / كم يستغرق / شكرا لكن لماذا / نعم / لا / نعم من
        فضلك / الآخر / هل أنت متأكد / غير واضح / لم أفهم / اشرح / وبعد ذلك / أقصر / حسنا والسعر / مثال / أيهما /
        كلاهما / وأنا / تمام الشرح
        """,
    "hi": """
        धन्यवाद और अगर यह न चले / ठीक है और जावा में / दूसरा / और / मैंने यह नहीं पूछा / काम नहीं कर रहा / अभी भी
        गलत / बढ़िया अब अंग्रेजी में / मेरी मदद करो / ठीक है और अब / और कल / कितना समय / धन्यवाद लेकिन क्यों / हाँ /
        नहीं / हाँ कृपया / वह वाला / क्या यह पक्का है / साफ नहीं है / समझ नहीं आया / समझाओ / फिर / छोटा / ठीक है और
        कीमत / उदाहरण / कौन सा / दोनों / और मेरे लिए / theek hai aur java me / samajh nahi aaya / accha aur kal
        """,
}
