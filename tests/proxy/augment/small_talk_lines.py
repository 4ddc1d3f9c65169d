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
