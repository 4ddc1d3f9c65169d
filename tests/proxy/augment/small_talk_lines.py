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
        cheers / perfect, exactly what I was after / that makes a lot more sense now / have a lovely rest of your day
        / off to bed, night / yep that's it, thanks / nope, that's all I needed / you've been super helpful / really
        appreciate your patience / great explanation, thank you / wow that was quick / awesome, it works now / sweet,
        thx / oh I see, got it / haha love it / right, back to work / catch you later / that's so kind of you / I owe
        you one / much clearer now, ta / noted, will try it / ahh ok that explains it / phew, what a relief / good to
        know, thanks mate / you're a star / problem solved, bye / this is really useful / thanks again and have a good
        weekend / couldn't have asked for more / nice talking to you / thx a bunch, u saved my bacon / okie doke, all
        sorted on my end / man that's a weight off my shoulders / yup working like a charm now / can't thank you
        enough / thanks heaps, have a good arvo / you're a lifesaver honestly / ah that clicks now / gonna give it a
        whirl tonight / nothing else from me, cheers / sorry for all the bother / beautifully put, thank you / ur
        awesome lol / tysm!! really helped me out / wishing you a great day ahead / thank u for taking the time to
        explain / okk gotcha thnx / good evening to you too / i feel so much better now / exactly the answer i was
        hoping for / well explained, kudos / cheers pal, speak soon / that's me done for tonight / perfetc, thanks /
        10/10 answer / bless you, that was quick / right, i'll leave it there then / you've cleared up my confusion /
        hope you have a good one / thanks claude / no more questions from my side / you nailed it, thank you kindly /
        that's super clear, appreciate the quick reply / yay it's fixed!! / i'm all set for the day, ty / what a great
        little assistant you are / okay cool, i'll check it out over lunch / thanks for your patience with my silly
        questions / night night, sleep well / no worries, have a good one / feeling much more confident now / ha, that
        made me smile / wow, didn't expect such a detailed answer / i'll let you get back to it / hugs, you're amazing
        / cheers for explaining
        """,
    "de": """
        super erklärt, vielen dank / ok, ich probier das mal aus / perfekt, das hat mir echt weitergeholfen / jetzt
        ist alles klar / danke für die schnelle antwort / du hast mir den tag gerettet / bis morgen dann / schönen
        abend noch / ach so, jetzt verstehe ich es / alles klar, danke dir / das wars für heute / gute nacht und danke
        / genial, genau das brauchte ich / cool, das klappt jetzt / haha, sehr gut / vielen lieben dank für deine
        geduld / keine weiteren fragen / sehr hilfreich, merci / top, mach ich / das ist wirklich nett von dir /
        klingt gut, ich teste das morgen / wieder was gelernt / prima, dann weiß ich bescheid / ich melde mich wieder
        / ok verstanden, danke / das freut mich sehr / lg und schönes wochenende / danke dir, hast mir echt viel zeit
        gespart / jo passt, merci dir / puh, da fällt mir ein stein vom herzen / läuft wieder, danke! / alles paletti
        / dann weiß ich jetzt bescheid, danke schön / ich probier's nachher gleich mal aus / nee, sonst ist alles klar
        / sorry für die vielen fragen / schönen feierabend wünsch ich dir / das hast du super erklärt / hihi sehr cool
        / supi dankeee / ok top danke für die mühe / bin jetzt deutlich schlauer / einen schönen sonntag noch / moin
        moin / vielen dank für deine ausführliche antwort / besser hätte man es nicht erklären können / jetzt hab ichs
        endlich gerafft / danke, das war sehr aufschlussreich / okidoki, bis die tage / passt scho, merci vielmals /
        damit ist meine frage beantwortet / du bist ein schatz / hat geklappt, danke fürs helfen / gruesse und
        schoenen abend / ich danke dir von herzen / jetzt kapier ichs, danke / alles bestens, schönen abend / das war
        echt schnell, wow / hab vielen dank / prima, das reicht mir / danke für alles und bis bald / du bist der
        wahnsinn / okay dann mach ich das so / na das ist ja einfach, danke / ich bin begeistert / merci und tschüss /
        super sache, weiter so / gott sei dank, es geht wieder
        """,
    "fr": """
        merci beaucoup pour ton aide précieuse / super, c'est très clair maintenant / d'accord, je vais essayer ça /
        parfait, c'est exactement ce que je voulais / tu m'as sauvé la vie / bonne soirée et à demain / ah ok je
        comprends mieux / génial, ça marche / merci pour votre réponse rapide / c'est noté, merci / trop bien, merci
        mille fois / bonne fin de journée / non c'est tout, merci / je vous remercie infiniment / très bonne
        explication / oh super, j'ai compris / mdr excellent / à la prochaine / tu es le meilleur / nickel, je teste
        demain / merci, c'est vraiment gentil / impeccable / j'adore / quelle efficacité, bravo / bon week-end à vous
        aussi / merci infiniment, vous m'avez sorti d'affaire / ouf, me voilà rassuré / merci d'avoir pris le temps de
        m'expliquer / c'est tout bon pour moi / top merci bcp / mercii c'est super gentil / je vais tester ça tout de
        suite / ça a marché, merci ! / désolé pour le dérangement / passe une excellente soirée / plus aucune question
        de mon côté / ah d'accord, tout s'explique / quelle réponse complète, bravo / merki beaucoup / t'es un amour /
        ok je note, merci / très bien expliqué, merci / hihi trop drôle / bonne nuit et encore merci / je comprends
        beaucoup mieux maintenant / c'est exactement ce dont j'avais besoin / tu me sauves la mise / au top, à bientôt
        / grand merci à toi / nickel chrome / merci pour les infos / ça m'a bien aidé / je te remercie du fond du cœur
        / ah oui, je vois maintenant / c'est vraiment très aimable à vous / parfait je ferai comme ça / merci pour ta
        patience / waouh quelle rapidité / bon courage et merci / tu m'as bien aidé, merci / tout est clair, bonne
        journée / ah super, ça fonctionne enfin / je n'ai plus de questions / à très vite / mdr t'es trop fort / ok
        top, je regarde ça
        """,
    "es": """
        muchísimas gracias por tu ayuda / genial, me ha quedado clarísimo / vale, lo pruebo ahora / perfecto, justo lo
        que necesitaba / me has salvado la vida / buenas noches y gracias / ah vale, ya lo entiendo / qué bien
        explicado / gracias por tu paciencia / eres un crack / hasta mañana / no tengo más dudas, gracias / ok, tomo
        nota / excelente explicación / ya funciona, gracias / que tengas un lindo día / muy claro todo / te lo
        agradezco mucho / jajaja buenísimo / eso es todo por hoy / gracias crack / me sirvió muchísimo / buen finde /
        listo, gracias / uf, qué alivio / mil gracias, me salvaste / uf menos mal, gracias / gracias por tomarte el
        tiempo / ya me quedó claro, muchas gracias / listo, ya funcionó / lo voy a probar ahorita / perdón por tanta
        molestia / eres lo máximo / buenísima explicación, gracias / de momento no tengo más preguntas / que pases una
        linda tarde / ok ok ya entendí / graciasss / jeje qué bueno / vale, pues muchas gracias / me fue de gran ayuda
        / muy completa tu respuesta / te pasaste, gracias / buenas tardes y gracias / qué maravilla de respuesta /
        super útil, thanks / un saludo y hasta pronto / genial, justo eso era / gracias de corazón / me has sacado de
        un apuro / todo claro por mi parte / órale, gracias carnal / te agradezco de corazón / ahora sí, todo
        clarísimo / qué rápido, gracias / perfecto, así lo haré / muchas gracias por tu paciencia / jaja me hiciste
        reír / buenas noches, descansa / ya no tengo dudas / fenomenal, gracias por todo / un placer hablar contigo /
        me alegra saberlo / ok perfecto, hasta luego / bendiciones / eres un sol
        """,
    "it": """
        grazie mille per il tuo aiuto / perfetto, ora è tutto chiaro / ok, ci provo subito / esattamente quello che
        cercavo / mi hai salvato la vita / buona serata e grazie / ah ok, adesso ho capito / ottima spiegazione /
        grazie per la pazienza / sei un grande / a domani / non ho altre domande / va bene, lo provo domani /
        funziona, grazie / ti ringrazio tanto / gentilissimo come sempre / haha bellissimo / per oggi è tutto / buon
        weekend anche a te / molto chiaro, grazie / che sollievo / fantastico, grazie infinite / ci vediamo presto /
        tutto chiaro / grazie davvero / grazie di cuore, mi hai tolto un peso / menomale, grazie / grazie per avermi
        dedicato del tempo / ora mi è tutto più chiaro / ha funzionato al primo colpo / lo provo stasera e grazie
        ancora / scusa il disturbo / sei stato chiarissimo / nessun'altra domanda per ora / buon pomeriggio e a presto
        / oki grazie mille / grazieee sei un angelo / ahaha fortissimo / spiegato benissimo / gentilissimo, buona
        serata / perfetto, ci provo / mi sei stato utilissimo / che bella risposta / wow grazie tante / tutto risolto,
        grazie / grz mille / ti auguro una buona giornata / era proprio quello che mi serviva / capito, grazie della
        dritta / problema risolto, ciao / sono più tranquillo adesso / ti ringrazio di cuore / ah ecco, ora capisco /
        perfetto, farò così / che velocità, grazie / grazie per la tua pazienza / mi hai fatto ridere / buonanotte,
        riposa bene / non ho più dubbi / benissimo, grazie di tutto / è stato un piacere parlare con te / ottimo, a
        presto / sei il top / dai, bello / finalmente funziona, grazie
        """,
    "pt": """
        muito obrigado pela ajuda / perfeito, agora ficou tudo claro / ok, vou testar agora / era exatamente o que eu
        precisava / você salvou meu dia / boa noite e obrigada / ah tá, entendi / ótima explicação / obrigado pela
        paciência / você é demais / até amanhã / sem mais dúvidas, obrigado / beleza, vou tentar / funcionou, valeu /
        te agradeço muito / kkkk muito bom / por hoje é só / bom fim de semana pra você / ficou bem claro / que alívio
        / show, obrigado / faz todo sentido / foi um prazer / ajudou demais / valeu mesmo / muitíssimo obrigado,
        salvou meu dia / ufa, que bom / obrigado por explicar tão bem / agora sim ficou claro / deu certo aqui, valeu
        / vou testar mais tarde / desculpa o incômodo / vc é fera / sem mais perguntas por hoje / tenha uma ótima
        tarde / blz entendi vlw / obrigadooo / kkk adorei / explicou direitinho, obrigada / me ajudou bastante / que
        resposta completa, parabéns / era isso mesmo, brigadão / bom domingo pra você / nossa, que rápido / agradeço a
        paciência / top demais / tirou todas as minhas dúvidas / fico muito grata pela ajuda / tudo certo por aqui /
        um abraço e até mais / fixe, obrigado pá / te agradeço de coração / ah sim, agora entendi / perfeito, farei
        assim / que rapidez, obrigado / obrigada pela sua paciência / haha me fez rir / boa noite, descansa / não
        tenho mais dúvidas / ótimo, obrigado por tudo / foi um prazer falar com você / você arrasa / finalmente
        funcionou, valeu / tá ótimo, obrigada / legal, bom saber
        """,
    "nl": """
        heel erg bedankt voor je hulp / perfect, nu snap ik het / oké, ik ga het proberen / precies wat ik nodig had /
        je hebt me echt geholpen / fijne avond en bedankt / ah zo, duidelijk / goede uitleg / bedankt voor je geduld /
        je bent een held / tot morgen / geen vragen meer, dank je / top, ik ga het testen / het werkt, bedankt / dat
        was alles voor vandaag / haha mooi / fijn weekend / super duidelijk / wat een opluchting / dank je wel voor de
        snelle reactie / klinkt goed / weer wat geleerd / dat helpt enorm / lekker bezig / slaap lekker / duizendmaal
        dank, je redt me / pfoe, gelukkig maar / bedankt dat je de tijd nam / nu is het me helemaal duidelijk / hij
        doet het weer, top / ik ga er morgen mee aan de slag / sorry voor het lastigvallen / je legt het goed uit /
        verder geen vragen hoor / fijne zondag nog / okee dankjewel he / bedanktttt / haha geniaal / super bedankt
        voor alles / dat heeft me veel tijd bespaard / wat een fijn antwoord / precies wat ik zocht, dank / goeieavond
        / tof man / helemaal goed zo / ik waardeer je geduld / ik kan weer verder / thanks he, doei / hartelijk dank
        voor de heldere uitleg / prettig weekend alvast / ben er blij mee / ik dank je hartelijk / aha, nu begrijp ik
        het / perfect, zo doe ik het / wat snel, dank je / bedankt voor al je hulp / haha moest lachen / welterusten,
        slaap lekker / ik heb geen vragen meer / prima, bedankt voor alles / leuk gesprek, tot ziens / eindelijk werkt
        het, bedankt / fijn om te weten / je bent geweldig / top, dank
        """,
    "ru": """
        огромное спасибо за помощь / отлично, теперь всё понятно / ок, попробую / это именно то, что я искал / вы меня
        очень выручили / спокойной ночи и спасибо / а, теперь понял / отличное объяснение / спасибо за терпение / ты
        лучший / до завтра / вопросов больше нет, спасибо / хорошо, проверю завтра / заработало, спасибо / на сегодня
        всё / ахах круто / хороших выходных / всё предельно ясно / какое облегчение / спасибо за быстрый ответ /
        звучит отлично / очень полезно / благодарю от всей души / класс, спасибо большое / всего доброго / спасибо
        огромное, вы меня спасли / фух, прям камень с души / спасибо, что уделили время / теперь все встало на свои
        места / все работает, спасибо! / вечером попробую, спасибо / извините за беспокойство / очень доступно
        объяснили / вопросов больше не имею / хорошего вечера и спасибо / окей понял спс / спасибоооо / ахах класс /
        супер, то что надо / вы мне очень помогли / какой подробный ответ, спасибо / благодарю за развернутый ответ /
        доброго утречка / ну вот и отлично / все, разобралась, спасибо / сенкью / пасибки большое / ну все, побежал /
        хорошо, буду знать / спасибо, добрый человек / рада была пообщаться / от всего сердца благодарю / а, вот
        теперь понял / отлично, так и сделаю / как быстро, спасибо / спасибо за ваше терпение / ахаха рассмешил /
        доброй ночи, отдыхай / сомнений больше нет / прекрасно, спасибо за всё / приятно было поговорить с вами /
        наконец заработало, спасибо / хорошо, что спросил / ты супер / круть, спс
        """,
    "zh": """
        太感谢你了 / 好的，我明白了 / 讲得很清楚，谢谢 / 我去试试 / 这正是我想要的 / 你帮了我大忙 / 晚安，谢谢 /
        哦，原来如此 / 解释得非常好 / 谢谢你的耐心 / 你太厉害了 / 明天见 / 没有别的问题了，谢谢 / 收到，谢谢 /
        问题解决了，感谢 / 今天就到这里吧 / 哈哈太棒了 / 周末愉快 / 学到了 / 松了一口气 / 非常有帮助 / 好的，辛苦了 /
        厉害厉害 / 懂了懂了 / 祝你一切顺利 / 太谢谢啦，帮大忙了 / 终于搞懂了，谢谢 / 谢谢你花时间解释 /
        可以了，跑起来了 / 我晚点试一下 / 不好意思打扰了 / 讲解得真细致 / 暂时没有其他问题了 / 祝你晚上愉快 /
        好哒，收到 / 谢谢谢谢 / 哈哈哈笑死 / 真的帮了我很多 / 回答得很全面，赞 / 就是我要的答案 / 感恩，比心 /
        好嘞，那先这样 / 牛啊牛啊 / 放心多了 / 你太贴心了 / thank you，明白了 / 辛苦啦，早点休息 / 感谢大佬 /
        成，我去弄弄看 / 谢谢老师 / 下次再来请教你 / 总算解决了，太感谢 / 由衷感谢你 / 哦，现在懂了 / 很好，我就这么做
        / 好快啊，谢谢 / 谢谢你这么耐心 / 哈哈逗死我了 / 晚安，好好休息 / 没有疑问了 / 太好了，谢谢你的一切帮助 /
        和你聊天很愉快 / 终于可以用了，谢谢 / 幸好问了你 / 你最棒 / 行，多谢
        """,
    "ja": """
        本当に助かりました / なるほど、よくわかりました / 試してみます、ありがとう / まさに知りたかったことです /
        とてもわかりやすい説明でした / おやすみなさい、ありがとう / ああ、そういうことか /
        丁寧な説明ありがとうございます / さすがですね / また明日 / もう大丈夫です、ありがとう /
        了解しました、ありがとうございます / 解決しました / 今日はこれで終わりです / すごい、感動しました / 良い週末を
        / 勉強になります / 安心しました / とても役に立ちました / はい、わかりました / やってみます / いつもありがとう
        / 完璧です / 嬉しいです / お世話になりました / 本当にありがとうございました！ / めっちゃ助かりましたー /
        お時間いただきありがとうございました / ようやく理解できました / 無事に動きました、感謝です /
        あとで試してみますね / お騒がせしました / すごくわかりやすかったです / 今のところ他に質問はありません /
        よい一日をお過ごしください / りょうかいです〜 / ありがとー / 笑った / とても参考になりました /
        期待以上の回答です / 助かりました、また来ます / なるほどです / ほっとしました / さすがです、先生 /
        おかげで解決しました / サンキューです / ではまた / お手数をおかけしました / モヤモヤが晴れました / 神対応 /
        うんうん、わかった / それで大丈夫です、どうもです / 心から感謝します / ああ、今わかりました /
        いいですね、そうします / 早いですね、ありがとう / 根気よくありがとうございました / 笑わせてもらいました /
        おやすみ、ゆっくり休んで / 疑問はもうありません / いろいろとありがとうございました / お話できて楽しかったです
        / やっと動いた、ありがとう / 聞いてよかったです / 最高です / よし、ありがとう
        """,
    "ko": """
        정말 감사합니다! / 너무 고마워요 덕분에 살았어요 / 휴 다행이다 / 이제 완전히 이해됐어요 / 잘 되네요 감사합니다
        / 나중에 한번 해볼게요 / 귀찮게 해서 죄송해요 / 설명 진짜 잘하시네요 / 더 궁금한 건 없어요 / 좋은 저녁
        보내세요 / 넵 알겠습니당 / 감사합니다아 / ㅋㅋㅋㅋ 웃기다 / 큰 도움 됐습니다 / 딱 제가 찾던 답이에요 / 오 대박
        감사해요 / 친절한 설명 감사드려요 / 시간 내주셔서 감사합니다 / 역시 최고야 / 그럼 이만 가볼게요 / 아하
        그렇구나 고마워 / 속이 다 시원하네요 / 해결했어요 고맙습니다 / 내일 시도해 볼게요 / 땡큐 땡큐 / ㄱㅅㄱㅅ /
        ㅇㅋ 감사 / 네네 알겠어요 / 수고 많으셨어요 / 오늘도 좋은 하루 되세요 / 많이 배웠습니다 / 빠른 답변 고마워요 /
        궁금증이 풀렸어요 / 질문은 여기까지예요 / 완벽한 답변이네요 / 정말 유익했어요 / 굿모닝이에요 / 잘자고 내일 봐
        / 덕분에 해결됐네요 / 마음이 놓이네요 / 진심으로 감사드립니다 / 아 이제 알겠네요 / 좋아요 그렇게 할게요 /
        빠르네요 고마워요 / 끝까지 설명해주셔서 감사합니다 / ㅋㅋ 빵 터졌어요 / 잘 자고 푹 쉬세요 / 더 물어볼 거
        없어요 / 여러모로 감사합니다 / 이야기 나눠서 즐거웠어요 / 드디어 되네요 감사합니다 / 물어보길 잘했네요 /
        최고예요 진짜 / 좋습니다 고맙습니다 / 깔끔하네요 굿
        """,
    "tr": """
        çok sağol, hayatımı kurtardın / oh be, içim rahatladı / zaman ayırdığınız için çok teşekkürler / şimdi her şey
        yerine oturdu / çalıştı, teşekkürler / akşam deneyeceğim / rahatsız ettiğim için özür dilerim / çok güzel
        açıkladın / şimdilik başka sorum yok / iyi akşamlar dilerim / tmm anladım saol / teşekkürlerrr / hahaha çok
        iyi / gerçekten işime yaradı / tam ihtiyacım olan cevaptı / ellerine sağlık hocam / detaylı açıklama için sağ
        olun / süpersin ya / hadi görüşürüz / iyi ki varsın / çok net anlattın / bi deneyeyim bakalım / sorunum
        çözüldü, çok teşekkürler / eyw kanka / ok anladım thanks / hayırlı cumalar / çok makbule geçti / kafamdaki
        soru işaretleri gitti / bugünlük bu kadar yeter / sabırla cevapladığın için teşekkür ederim / mükemmel bir
        cevap / oldu, tamamdır / yarın bakarım / iyi haftasonları / tesekkur ederim cok yardimci oldunuz / helal sana
        / aydınlandım resmen / not ettim, sağ olun / vallahi bravo / allah razı olsun senden / kalpten teşekkür ederim
        / ha şimdi anladım / harika, öyle yapacağım / ne kadar hızlı, teşekkürler / sabrın için çok sağ ol / hahaha
        güldürdün beni / iyi geceler, iyi dinlen / aklımda soru kalmadı / süper, her şey için teşekkürler / seninle
        konuşmak güzeldi / sonunda çalıştı, sağ ol / iyi ki sordum / bir numarasın / tamamdır, eyvallah / çok işime
        yaradı valla
        """,
    "ar": """
        شكرا جزيلا على المساعدة / ممتاز، الآن كل شيء واضح / حسنا سأجرب ذلك / هذا بالضبط ما كنت أبحث عنه / لقد ساعدتني
        كثيرا / تصبح على خير وشكرا / آه الآن فهمت / شرح رائع / شكرا على صبرك / أنت الأفضل / أراك غدا / ليس لدي أسئلة
        أخرى شكرا / تمام وصلت الفكرة / اشتغل معي شكرا / هذا كل شيء اليوم / ههههه حلو / عطلة سعيدة / واضح جدا / الحمد
        لله / شكرا على سرعة الرد / جزاك الله كل خير / معلومة مفيدة / يعطيك العافية / بارك الله فيك / جميل جدا / ألف
        شكر، أنقذتني / الحمد لله ارتحت / شكرا لأنك خصصت وقتا لي / الآن صار كل شي واضح / اشتغلت الحمد لله / بجربها
        الليلة / آسف على الإزعاج / شرحك ممتاز / ما عندي أسئلة ثانية / مساؤك سعيد / اوك فهمت شكرا / شكراااا / هههه جامد
        / ساعدتني جدا / هذا ما كنت أحتاجه تماما / الله يعطيك الصحة / مشكور على المعلومات القيمة / تسلم إيدك / يومك
        سعيد وشكرا / عاشت ايدك / رد سريع وواضح شكرا / ربنا يكرمك / تمام كده شكرا / ثانكس / إلى لقاء قريب / انحلت
        مشكلتي شكرا كتير / جزيت خيرا / استفدت كثيرا / أشكرك من أعماق قلبي / آه الآن فهمت عليك / ممتاز، سأفعل ذلك / ما
        أسرعك، شكرا / شكرا على طول بالك / ههههه ضحكتني / تصبح على خير وارتاح / لم يعد لدي شك / رائع، شكرا على كل شيء /
        سعدت بالحديث معك / أخيرا اشتغل، شكرا / الحمد لله إني سألت / أنت رائع / حلو كتير
        """,
    "hi": """
        आपकी मदद के लिए बहुत धन्यवाद / बढ़िया, अब सब साफ है / ठीक है, मैं कोशिश करता हूँ / मुझे यही चाहिए था / आपने
        मेरी बहुत मदद की / शुभ रात्रि और धन्यवाद / ओह, अब समझ आया / बहुत अच्छा समझाया / आपका बहुत आभार / आप कमाल हैं /
        कल मिलते हैं / और कोई सवाल नहीं, धन्यवाद / ठीक है, समझ गया / काम हो गया, शुक्रिया / आज के लिए बस इतना ही / वाह
        क्या बात है / बहुत उपयोगी जानकारी / सही कहा / राहत मिली / जल्दी जवाब देने के लिए धन्यवाद / bahut accha
        samjhaya / thanks bhai / ok samajh gaya / mast hai yaar / kal milte hain / बहुत बहुत शुक्रिया, आपने बचा लिया /
        चलो राहत मिली / समय देने के लिए धन्यवाद / अब सब कुछ समझ में आ गया / चल गया, थैंक्स / शाम को करके देखूंगा /
        परेशान करने के लिए माफ़ी / आपने बहुत अच्छे से समझाया / अभी और कोई सवाल नहीं है / आपकी शाम अच्छी हो / ok ji
        samajh gaya thanks / thank uuu / हाहा मज़ा आ गया / बहुत काम की जानकारी थी / बिल्कुल यही चाहिए था / bahut bahut
        dhanyavaad aapka / shukriya dost, bahut madad hui / सुपर जवाब / चलिए फिर मिलते हैं / नमस्ते जी / मेरी समस्या
        हल हो गई / dil khush ho gaya / मान गए उस्ताद / kya mast samjhaya yaar / तसल्ली हुई / अच्छा ठीक है जी / badhiya
        hai bhai / गुड मॉर्निंग जी / ओके सर समझ गया / तहे दिल से शुक्रिया / अच्छा, अब समझा / बढ़िया, मैं ऐसा ही करूंगा
        / कितनी जल्दी जवाब दिया, धन्यवाद / आपके धैर्य के लिए धन्यवाद / हाहा हंसा दिया / शुभ रात्रि, आराम करो / अब कोई
        शंका नहीं / सब कुछ के लिए शुक्रिया / आपसे बात करके अच्छा लगा / आखिर चल गया, शुक्रिया / अच्छा हुआ पूछ लिया / आप
        बहुत अच्छे हो / चलो ठीक है, बाय / bahut accha laga baat karke
        """,
}

ASKED = {
    "en": """
        thanks but that didn't work / it didn't help, thanks / ok but it wasn't clear / thanks but I couldn't /
        thanks, and what if it fails / ok and in java / the second one / more please / that is not what i asked / it
        does not work / still wrong / great now in german / is that good / can you help me / ok now the quick answer /
        and for my dog / thanks but i need the link / what about sunday / ok try that in python / does it help / is it
        easy / did you try it / ok explain it / the other one / great, and the fee / shorter please / thanks, how long
        / yes / no / yes please / again / are you sure / that makes no sense / not clear / i have not tried it / ok
        and now / great, tomorrow / super, was / and then / help / the best one / ok better / i don't get it / why is
        that / both / thanks, which one / thanks for what / thank you note for my boss / good morning in welsh / great
        expectations / ok but the other one / cheers to whom / thanks but that's not it / nice, france / bye week /
        perfect number / cool down period / i got it wrong / works on windows / will it work / now the short answer /
        ok then what / helped whom / solved by whom / best regards or kind regards / and the good news / the great one
        / yes thanks, the second / no the other thing / is it working / thanks, now what / a / c / ok b / the latter /
        ok the latter / great, zoo / ok the next one / help me understand / explain it simply / what happens at night
        / and at the end / so who is right / good for whom / is it free today / thanks, more details / ok for two
        people / fix it / show me / the fixed one / it is stuck / i feel sick / my head hurts / ok what else / nice
        try, again / great, for how long / the right side / good to go or not / not good / how is it done / best day
        to go / morning or evening / perfect for me / so it works how / spend how much / time / where to
        """,
    "de": """
        danke, und was wenn es nicht klappt / ok und in java / das zweite / mehr bitte / das war nicht meine frage /
        es funktioniert nicht / immer noch falsch / super, jetzt auf englisch / ist das gut / kannst du mir helfen /
        ok jetzt / und morgen / geht das auch billiger / wie lange / danke, aber warum / noch eins / ja / nein / ja
        bitte / nochmal / bist du sicher / das ist unklar / nicht verstanden / hat das geholfen / erkläre das / und
        dann / was noch / die andere / ok kürzer / gut, und die gebühr / danke wofür / gute nacht auf schwedisch /
        super, aber nicht für mich / ok, nur die kurze antwort / klappt nicht / das passt nicht / alles klar, und wann
        / und wenn es nicht läuft / danke, jetzt noch der preis / schöner wohnen / guten morgen karte / das andere
        bitte / bis wann / schönen gruß formulieren / hab ich nicht verstanden / prima klima / ist das sicher / mach
        weiter / erkläre es mir nochmal / kann ich das testen / geht das morgen / wer hat das gesagt / gut, dann das
        zweite / wie geht das / was ist besser / für wen / zeig mir das / und am abend / am morgen oder am abend /
        noch eins bitte / danke, mehr infos / für zwei / das kleine / geht es auch ohne / die guten / weiter / hilf
        mir / ist es heute offen / wo ist das / nochmal bitte / gut für mich / nicht so gut / wann wieder / alles /
        heute / ok für morgen / wie ist das gemeint / kurz bitte
        """,
    "fr": """
        merci, et si ça échoue / ok et en java / le deuxième / encore / ce n'est pas ma question / ça ne marche pas /
        toujours faux / super, maintenant en anglais / est ce que c'est bon / peux tu m'aider / ok et maintenant / et
        demain / combien de temps / merci mais pourquoi / oui / non / oui s'il te plaît / l'autre / tu es sûr / pas
        clair / je n'ai pas compris / explique / et après / plus court / d'accord et le prix / donne un exemple /
        lequel / les deux / et pour moi / merci pour quoi / bonne nuit en breton / ça marche comment / super mais trop
        cher / pas tout à fait / la bonne réponse / ok la suite / et en hiver / bonjour tristesse / ce n'est pas clair
        / encore une fois / d'accord mais quand / le meilleur / explique mieux / et si ça ne marche pas / parfait, et
        la caution / merci, le lien / vous êtes qui / trop long / plus simple / c'est pour demain / ça dépend de quoi
        / oui mais non / et le soir / pour qui / c'est quoi / montre moi / plus de détails / le petit / c'est mieux
        comment / pour deux / aide moi / où ça / merci, et après / bon pour la santé / pas bon / demain / c'est ouvert
        aujourd'hui / et sans / la suite / ça ne va pas / je ne comprends pas / et moi / le bon / tout / à quelle
        heure / vite
        """,
    "es": """
        gracias, y si falla / ok y en java / el segundo / más por favor / eso no es lo que pregunté / no funciona /
        sigue mal / genial, ahora en inglés / puedes ayudarme / vale y ahora / y mañana / cuánto tiempo / gracias pero
        por qué / sí / no / sí por favor / el otro / estás seguro / no está claro / no entiendo / explícalo / y
        después / más corto / vale y el precio / dame un ejemplo / cuál / los dos / y para mí / otra vez / qué más /
        gracias a quién / buenas noches en catalán / bueno pero caro / está bien escrito / funciona en mac / y si no
        funciona / vale, la segunda / claro que no / qué más hay / ya pero cuándo / hola mundo en java / no es eso /
        lo mismo para el otro / gracias, el enlace / genial, y el precio / el mejor / entonces cuál / todo el día /
        muy largo / más simple / no me quedó claro / buen viaje en inglés / perfecto para quién / y de noche / para
        quién / qué es / muéstrame / más detalles / el pequeño / cómo es mejor / para dos / ayúdame / dónde / bueno
        para mí / no es bueno / otra / mañana / está abierto hoy / y sin eso / sigue / no va / no lo entiendo / y yo /
        el bueno / todo / a qué hora / rápido / no está bien
        """,
    "it": """
        grazie, e se fallisce / ok e in java / il secondo / ancora / non è quello che ho chiesto / non funziona /
        ancora sbagliato / ottimo, ora in inglese / puoi aiutarmi / ok e adesso / e domani / quanto tempo / grazie ma
        perché / sì / no / sì per favore / l'altro / sei sicuro / non è chiaro / non ho capito / spiegalo / e dopo /
        più corto / va bene e il prezzo / un esempio / quale / tutti e due / e per me / cos'altro / grazie a chi /
        buonanotte in spagnolo / bello ma caro / funziona su mac / e se non va / va bene la seconda / non proprio /
        che altro / più semplice / ok ma quando / perfetto, e la cauzione / troppo lungo / la migliore / grazie, il
        link / ciao mondo in python / non è quello / spiegami meglio / quello di prima / e per i bambini / come mai /
        tutto il giorno / chi lo dice / e di sera / per chi / cos'è / mostrami / più dettagli / il piccolo / come è
        meglio / per due / aiutami / dove / buono per me / non va bene / un altro / domani / è aperto oggi / e senza /
        continua / non capisco / e io / quello buono / tutto / a che ora / veloce / non è così
        """,
    "pt": """
        obrigado, e se falhar / ok e em java / o segundo / mais por favor / não foi isso que perguntei / não funciona
        / ainda errado / ótimo, agora em inglês / pode me ajudar / ok e agora / e amanhã / quanto tempo / obrigado mas
        por quê / sim / não / sim por favor / o outro / tem certeza / não está claro / não entendi / explique / e
        depois / mais curto / beleza e o preço / um exemplo / qual / os dois / e para mim / de novo / obrigado a quem
        / boa noite em japonês / bom mas caro / funciona no mac / e se não der certo / beleza, a segunda / não é bem
        isso / o que mais / mais simples / ok mas quando / perfeito, e a taxa / muito longo / a melhor / obrigado, o
        link / olá mundo em python / não é esse / explica melhor / o de antes / e para crianças / por que não / o dia
        todo / quem disse isso / prefeito / e à noite / para quem / o que é / me mostra / mais detalhes / o pequeno /
        como é melhor / para dois / me ajuda / onde / bom para mim / não é bom / outro / amanhã / está aberto hoje / e
        sem / continua / não entendo / e eu / o bom / tudo / a que horas / rápido / não é assim
        """,
    "nl": """
        bedankt, en als het mislukt / ok en in java / de tweede / meer graag / dat vroeg ik niet / het werkt niet /
        nog steeds fout / mooi, nu in het engels / kun je me helpen / ok en nu / en morgen / hoe lang / bedankt maar
        waarom / ja / nee / ja graag / de andere / weet je het zeker / niet duidelijk / ik snap het niet / leg uit /
        en dan / korter / goed en de prijs / een voorbeeld / welke / allebei / en voor mij / is dat goed / lukt dat /
        bedankt waarvoor / goedenacht in het frans / mooi maar duur / werkt het op mac / en als het niet lukt / goed,
        de tweede / niet helemaal / wat nog meer / simpeler / ok maar wanneer / perfect, en de borg / te lang / de
        beste / bedankt, de link / hallo wereld in python / dat is het niet / leg het beter uit / die van net / en
        voor kinderen / waarom niet / de hele dag / wie zegt dat / en 's avonds / voor wie / wat is het / laat zien /
        meer details / de kleine / hoe is het beter / voor twee / help me / waar / goed voor mij / niet goed / een
        andere / morgen / is het vandaag open / en zonder / ga verder / ik begrijp het niet / en ik / de goede / alles
        / hoe laat / snel / dat klopt niet
        """,
    "ru": """
        спасибо, а если не получится / ок а на java / второй / ещё / я не это спросил / не работает / всё ещё
        неправильно / отлично, теперь на английском / помоги мне / ок и теперь / а завтра / как долго / спасибо, но
        почему / да / нет / да, пожалуйста / другой / ты уверен / не понятно / я не понял / объясни / и потом / короче
        / хорошо, а цена / пример / какой / оба / а мне / подробнее / что ещё / спасибо за что / спокойной ночи по
        испански / хорошо но дорого / работает на маке / а если не сработает / хорошо, второй / не совсем / что еще
        есть / проще / ок но когда / отлично, а залог / слишком длинно / самый лучший / спасибо, ссылку / привет мир
        на питоне / это не то / объясни лучше / тот что раньше / а для детей / почему нет / весь день / кто сказал / а
        вечером / для кого / что это / покажи / больше подробностей / маленький / как лучше / на двоих / помогите /
        где / хорошо для меня / не хорошо / другую / завтра / открыто сегодня / а без / дальше / не понимаю / а я /
        хороший вариант / всё / во сколько / быстрее / это не так
        """,
    "zh": """
        谢谢，如果失败呢 / 好的，用java呢 / 第二个 / 再来一个 / 这不是我问的 / 不行 / 还是错的 / 很好，现在用英文 /
        帮帮我 / 好，那现在 / 好的，明天呢 / 多久 / 谢谢，为什么 / 是 / 不是 / 是的，请继续 / 另一个 / 你确定吗 /
        不清楚 / 我不明白 / 解释一下 / 然后 / 短一点 / 好的，价格 / 举个例子 / 哪个 / 两个都要 / 给我看看 / 详细一点 /
        还有呢 / 谢谢，说明 / 谢谢用日语怎么说 / 好是好，但是太贵 / 不太明白 / 那如果不行呢 / 好的，第二个 / 不是这个
        / 还有别的 / 简单点 / 什么时候 / 很好，押金呢 / 太长了 / 最好的 / 谢谢，链接发我 / 换一个 / 继续 / 说清楚一点
        / 刚才那个 / 小孩呢 / 为什么不行 / 一整天 / 谁说的 / 好的，价格多少 / 那晚上呢 / 给谁 / 这是什么 / 给我看 /
        更多细节 / 小的 / 怎样更好 / 两个人 / 帮我 / 在哪 / 对我好吗 / 不好 / 另外一个 / 明天 / 今天开吗 / 没有呢 /
        接着说 / 没懂 / 那我呢 / 好的那个 / 全部 / 几点 / 快点 / 不对
        """,
    "ja": """
        ありがとう、失敗したら / では javaで / 二番目 / もっと / それは聞いていません / 動きません /
        まだ間違っています / いいね、次は英語で / 手伝ってください / では今は / 明日は / どのくらい / ありがとう、なぜ
        / はい / いいえ / はい、お願いします / 別の / 本当ですか / わかりません / 説明して / それから / 短く /
        了解、料金は / 例を / どれ / 両方 / 私には / 詳しく / 他には / ありがとう、説明 / ありがとうは英語で /
        いいけど高い / よくわからない / もしだめだったら / では二つ目 / それじゃない / ほかにある / もっと簡単に /
        いつから / なるほど、保証金は / 長すぎる / 一番いいの / ありがとう、リンクは / 別のやつ / 続けて / もう一回 /
        さっきの / 子どもは / なぜだめ / 一日中 / 誰が言った / おすすめは / 夜は / 誰のため / これは何 / 見せて /
        もっと詳しく / 小さいの / どうすればいい / 二人で / 助けて / どこ / 私にはいい / よくない / ほかの / 明日 /
        今日は開いてる / なしで / 続き / わからない / 私は / いいほう / 全部 / 何時 / 早く / 違う
        """,
    "ko": """
        감사 인사말 예시 / 고마워를 영어로 / 좋은데 비싸요 / 잘 모르겠어요 / 안 되면요 / 그럼 두 번째 / 그거 말고 /
        다른 건 / 더 쉽게 / 언제부터 / 알겠어요 보증금은 / 너무 길어요 / 제일 좋은 거 / 고마워요 링크는 / 계속 / 다시
        한번 / 아까 그거 / 아이들은 / 왜 안 돼 / 하루 종일 / 누가 그래 / 네 / 아니요 / 그리고 / 이해가 안 돼요 / 더
        자세히 / 예를 들어 / 감사합니다 그런데 왜 / 해결이 안 됐어요 / 도움이 안 돼요 / 설명해 주세요 / 도와주세요 /
        둘 다 / 얼마예요 / 좋아요 그럼 내일은 / 답변이 틀렸어요 / 이해가 잘 안 되네요 / 설명이 더 필요해요 / 자세한
        설명 / 이제 짧은 답변 / 밤에는 / 누구를 위해 / 이게 뭐예요 / 보여줘 / 더 자세히요 / 작은 거 / 어떻게 하면
        좋아요 / 두 명 / 도와줘 / 어디 / 나한테 좋아요 / 안 좋아요 / 다른 거 / 내일 / 오늘 열어요 / 없이 / 계속해 /
        모르겠어요 / 저는요 / 좋은 거 / 전부 / 몇 시 / 빨리 / 그게 아니에요
        """,
    "tr": """
        teşekkürler ne demek ingilizcede / iyi geceler almanca / güzel ama pahalı / mac'te çalışıyor mu / ya
        çalışmazsa / tamam ikincisi / tam olarak değil / başka ne var / daha basit / tamam ama ne zaman / harika peki
        depozito / çok uzun / en iyisi / teşekkürler linki / merhaba dünya python / o değil / daha iyi açıkla / önceki
        / çocuklar için / bütün gün / kim dedi / evet / hayır / ikisi de / devam et / bir daha / örnek ver / nasıl
        yani / işe yaramadı / sorun çözülmedi / anlamadım ki / bana yardım et / şimdi kısa cevap / ve yarın / tamam
        şimdi ne / çok iyi değil / sorum var / başka bir şey / bu ne için / daha iyi bir cevap / akşam için / kimin
        için / bu ne / göster / daha fazla bilgi / küçük olan / nasıl daha iyi olur / iki kişi / yardım et / nerede /
        benim için iyi / iyi değil / başkası / yarın / bugün açık mı / onsuz / devam / anlamıyorum / ya ben / iyi olan
        / hepsi / saat kaç / çabuk / öyle değil / bana bir öneri
        """,
    "ar": """
        شكرا وماذا لو فشل / طيب وفي جافا / الثاني / المزيد / ليس هذا ما سألت / لا يعمل / ما زال خطأ / ممتاز الآن
        بالإنجليزية / ساعدني من فضلك في هذا / حسنا والآن / وغدا / كم يستغرق / شكرا لكن لماذا / نعم / لا / نعم من فضلك
        / الآخر / هل أنت متأكد / غير واضح / لم أفهم / اشرح / وبعد ذلك / أقصر / حسنا والسعر / مثال / أيهما / كلاهما /
        وأنا / تمام الشرح / شكرا على ماذا / تصبح على خير بالفرنسية / جيد لكن غالي / هل يعمل على ماك / وإذا لم ينجح /
        حسنا الثاني / ليس تماما / ماذا أيضا / أبسط / طيب متى / ممتاز والتأمين / طويل جدا / من الأفضل / شكرا، الرابط /
        مرحبا بالعالم بايثون / ليس هذا / اشرح أكثر / السابق / والأطفال / لم لا / طوال اليوم / من قال / وفي المساء /
        لمن / ما هذا / أرني / المزيد من التفاصيل / الصغير / كيف أفضل / لشخصين / ساعدني / أين / جيد لي / ليس جيدا /
        واحد آخر / غدا / هل هو مفتوح اليوم / وبدون / أكمل / لا أفهم / الجيد / الكل / في أي ساعة / بسرعة / ليس صحيحا
        """,
    "hi": """
        धन्यवाद और अगर यह न चले / ठीक है और जावा में / दूसरा / और / मैंने यह नहीं पूछा / काम नहीं कर रहा / अभी भी गलत
        / बढ़िया अब अंग्रेजी में / मेरी मदद करो / ठीक है और अब / और कल / कितना समय / धन्यवाद लेकिन क्यों / हाँ / नहीं
        / हाँ कृपया / वह वाला / क्या यह पक्का है / साफ नहीं है / समझ नहीं आया / समझाओ / फिर / छोटा / ठीक है और कीमत /
        उदाहरण / कौन सा / दोनों / और मेरे लिए / theek hai aur java me / samajh nahi aaya / accha aur kal / धन्यवाद
        किसलिए / शुभ रात्रि तमिल में / अच्छा पर महंगा / मैक पर चलेगा / और अगर नहीं चला / ठीक है दूसरा वाला / बिल्कुल
        नहीं / और क्या / आसान भाषा में / ठीक पर कब / बढ़िया और जमा राशि / बहुत लंबा / सबसे अच्छा / धन्यवाद लिंक दो /
        यह नहीं / ठीक से समझाओ / पहले वाला / और बच्चों के लिए / क्यों नहीं / पूरे दिन / किसने कहा / acha kab / sahi
        hai kya / samajh me nahi aaya / aur batao / और शाम को / किसके लिए / यह क्या है / दिखाओ / और जानकारी / छोटा
        वाला / कैसे बेहतर / दो लोग / मदद करो / कहाँ / मेरे लिए अच्छा / अच्छा नहीं / दूसरी / कल / आज खुला है / बिना /
        आगे / समझ नहीं / और मैं / अच्छा वाला / सब / कितने बजे / जल्दी / ऐसा नहीं है / aur detail me / simple me batao
        """,
}
