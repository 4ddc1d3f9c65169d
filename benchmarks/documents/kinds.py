"""Texts of kinds that the documentation lacks: other languages, long tables, deep headings, notes, lists."""

_TABLE = "| {} |\n| --- | --- | --- | --- |\n".format
_ROWS = "\n".join(
    f"| P-{n:03} | {('ball valve', 'gasket', 'rotor', 'shaft seal', 'pressure gauge')[n % 5]} "
    f"| {17 * n % 90 + 5} | {('hall A', 'hall B, upper floor', 'yard')[n % 3]} |"
    for n in range(1, 96)
)
_DEEP = "\n\n".join(
    f"## Line {line}\n\nLine {line} fills {line * 40} bottles a minute."
    + "".join(
        f"\n\n### Station {line}.{station}\n\nStation {station} of line {line} stops if its door is open."
        f"\n\n#### Faults of station {line}.{station}\n\nCall the shift leader for fault E{line}{station}7, and write"
        " the hour into the book."
        for station in (1, 2, 3)
    )
    for line in (1, 2, 3)
)

TEXTS = {
    "german": """# Reisekostenordnung

## Geltungsbereich

Diese Ordnung gilt für alle Beschäftigten der Genossenschaft, nicht jedoch für Auszubildende im ersten Lehrjahr. Über
Ausnahmen entscheidet die Geschäftsführung schriftlich.

## Übernachtungsgeld

Für Dienstreisen mit Übernachtung werden die nachgewiesenen Unterkunftskosten erstattet, höchstens jedoch die Beträge
der folgenden Übersicht. Frühstückskosten gehören nicht zu den Unterkunftskosten.

| Reiseziel | Höchstbetrag | Genehmigung |
| --- | --- | --- |
| Inland | 95 Euro | nicht erforderlich |
| Österreich und Schweiz | 130 Euro | Abteilungsleitung |
| übriges Ausland | 160 Euro | Geschäftsführung |

## Abrechnung

1. Belege innerhalb von sechs Wochen einreichen.
2. Fahrtenbuch beifügen, wenn ein eigenes Fahrzeug benutzt wurde.
3. Rückfragen beantwortet die Buchhaltung, Durchwahl 4711.
""",
    "french": """# Règlement de la bibliothèque

## Prêt à domicile

Chaque lecteur peut emprunter jusqu'à douze documents pour une durée de quatre semaines. Les dictionnaires et les revues
de l'année en cours ne sont pas prêtés. Un retard de plus de huit jours entraîne une suspension équivalente.

| Document | Durée | Renouvellement |
| --- | --- | --- |
| livre | quatre semaines | une fois |
| disque | deux semaines | jamais |
| jeu de société | trois jours | jamais |

## Accès aux salles

- La salle de lecture est ouverte de neuf à dix-neuf heures.
- Les élèves accompagnés ont accès à l'atelier numérique.
- Aucun aliment n'est admis près des collections anciennes.
""",
    "russian": """# Правила лаборатории

## Допуск к работе

К самостоятельной работе допускаются сотрудники, прошедшие вводный инструктаж. Посетители без сопровождения в помещение
не входят. Журнал посещений хранится у дежурного пять лет.

| Прибор | Напряжение | Ответственный |
| --- | --- | --- |
| центрифуга | 220 В | Соколова |
| сушильный шкаф | 380 В | Орлов |
| весы | нет | дежурный |

## Действия при аварии

Отключите питание, сообщите руководителю и не открывайте вытяжной шкаф до прихода спасателей.
""",
    "greek": """# Κανονισμός του λιμένα

## Αγκυροβόληση

Τα σκάφη μήκους άνω των δώδεκα μέτρων δένουν μόνο στην εξωτερική προβλήτα. Η διανυκτέρευση χωρίς άδεια δεν επιτρέπεται
από τον Ιούνιο έως τον Σεπτέμβριο.

| Μήκος | Τέλος | Προβλήτα |
| --- | --- | --- |
| έως 6 μέτρα | 8 ευρώ | εσωτερική |
| έως 12 μέτρα | 14 ευρώ | μεσαία |
| άνω των 12 | 30 ευρώ | εξωτερική |

## Ανεφοδιασμός

Τα καύσιμα διατίθενται από τις επτά το πρωί, εκτός Κυριακής.
""",
    "chinese": """# 宿舍管理规定

## 入住

新生凭录取通知书在九月一日前办理入住手续。未经许可，不得调换房间，也不得留宿他人。每间宿舍的用电限额为每月八十度。

| 楼号 | 床位 | 每年费用 |
| --- | --- | --- |
| 一号楼 | 四人间 | 1200 元 |
| 二号楼 | 六人间 | 800 元 |
| 三号楼 | 双人间 | 2400 元 |

## 安全

离开房间时请关闭电源和门窗。发现火情应当立即拨打 119，并通知值班人员。
""",
    "long-table": "# Spare parts\n\nThe list holds for the whole works.\n\n"
    f"{_TABLE('part | name | stock | place')}{_ROWS}\n\n"
    "## Orders\n\nOrder at the desk of the store, in writing and with the number of the machine.\n",
    "deep-headings": f"# Bottling hall\n\nThe hall has three lines with three stations each.\n\n{_DEEP}\n",
    "notes": """# Charter of the archive

The archive keeps the papers of the guild since 1532[^1] and shows them to anybody who asks in writing. It lends
nothing, except to the town museum[^2], and never the seal.

## Copies

Copies cost 40 cents a page; plans and maps are photographed for the price of the work.[^3] Researchers of the
university pay half.

[^1]: The older papers burned with the town hall.
[^2]: By a contract of 1988, for six months at most.
[^3]: See the list of prices at the counter.
""",
    "lists": """# Before the winter

What the caretaker does in October, house by house.

- Drain the pipes of the garden:
    - open the lower tap first,
    - then the upper one,
    - and leave both open.
- Sweep the roof of the shed.
- Look after the heating:
    1. bleed the radiators,
    2. write down the pressure,
    3. add water below 1.2 bar.

## In the cellar

Move what must not freeze to the inner room: paint, seeds, and the accumulator of the mower.

```
pressure = gauge.read()
if pressure < 1.2:
    valve.open(seconds=20)
    log("added water", pressure)
```

Then close the hatch.
""",
    "wide-table": """# Tides and tolls

Hours of the locks, and what a boat pays, by its length in metres.

| lock | opens | closes | up to 8 | up to 12 | up to 20 | longer | phone | closed on |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
| North | 6:00 | 22:00 | 4 | 7 | 12 | 20 | 0170 11 | Mondays |
| Mill | 7:30 | 20:30 | 3 | 5 | 9 | 15 | 0170 12 | never |
| Castle | 8:00 | 18:00 | 3 | 5 | 9 | 15 | 0170 13 | holidays |
| Sea | 5:30 | 23:00 | 6 | 9 | 16 | 28 | 0170 14 | storms |

A boat that waits for more than an hour pays nothing.
""",
}
