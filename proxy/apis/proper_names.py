"""A question without names, for a second search of operations.

The words of a name find APIs of other subjects: "House of Cards" finds cards, "Star Wars" finds stars.
"""

import re

# Among 10,008 operations of other APIs, the second search raises the share of RestBench's questions with a right
# operation among the first five from .68 to .73, and leaves ToolBench's at .892. Of longer questions, in which names
# are fewer than a tenth of the words, ToolBench's share falls to .886.
_LEAST_SHARE = 0.1
# German writes every noun with a capital letter. No such word is an English word.
_GERMAN = frozenset({"der", "das", "dem", "ein", "eine", "einen", "und", "ist", "sind", "ich", "mir", "mich", "wie",
                     "wer", "wo", "gibt", "für", "mit", "welche", "welcher", "welches", "nicht", "zu", "auf", "bitte",
                     "kann", "zeige", "nach"})  # fmt: skip
_SENTENCE_ENDS = ".!?:"
_AROUND = "\"'“”„‘’«»()[],;:!?."
_PRONOUN = re.compile("I(['’].*)?")
_QUOTED = re.compile(r'"[^"]*"|“[^”]*”|«[^»]*»')


def without_names(question: str) -> str:
    """The question without words with a capital letter within a sentence, and without quotations.

    "" for a question with few or no names, for a question in German, and for a question of names only.
    """
    words = question.split()
    if _GERMAN & {word.strip(_AROUND).lower() for word in words}:
        return ""
    kept, begins = [], True
    for word in _QUOTED.sub(" ", question).split():
        bare = word.strip(_AROUND)
        if begins or not bare[:1].isupper() or _PRONOUN.fullmatch(bare):
            kept.append(word)
        begins = word.endswith(tuple(_SENTENCE_ENDS))
    return " ".join(kept) if kept and len(words) - len(kept) >= _LEAST_SHARE * len(words) else ""
