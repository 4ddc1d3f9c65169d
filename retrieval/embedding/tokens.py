"""Text to the embedder's own tokens: how many there are, and where each one is.

An embedder silently cuts a chunk that is too long, so chunks are measured in the embedder's own tokens. A
`tokenizer.json` may switch on truncation and padding (MiniLM's file cuts and pads at 128): both are off here. Special
tokens ([CLS], [SEP] …) are not counted; a token budget must leave room for them.

A budget is spent in tokens of another model, which knows other letters. The embedder's tokenizer reads a word with
letters that its vocabulary lacks as one unknown token, however long: base64, Thai, Khmer, emoji. So an unknown token
counts as one token for four bytes. Signs that it drops count, too: apart from blanks, of which models read many at a
time, no text has fewer tokens than an eighth of its bytes. (Prose has five bytes per token; the longest WordPiece
vocabulary entries have 18 letters.)
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path

Span = tuple[int, int]
_BYTES_PER_UNKNOWN_TOKEN = 4
_MOST_BYTES_PER_TOKEN = 8
_MOST_BLANKS_PER_TOKEN = 32
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+")
_UNKNOWN = ("[UNK]", "<unk>", "<UNK>")


class EmbedderTokenizer:
    """Counts and locates tokens; thread-safe."""

    def __init__(self, path: Path) -> None:
        """Read `path`, a tokenizer.json. Raises FileNotFoundError, or ValueError if it is not a tokenizer.json."""
        from tokenizers import Tokenizer  # 60 ms and a native library: only imported to count

        if not path.is_file():
            raise FileNotFoundError(f"no tokenizer at {path}: expected the embedder's tokenizer.json")
        try:
            self._tokenizer = Tokenizer.from_buffer(path.read_bytes())
        except ValueError as error:
            raise ValueError(f"{path} is not a tokenizer.json ({error}): give the embedder's own file") from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._unknown = {id for name in _UNKNOWN if (id := self._tokenizer.token_to_id(name)) is not None}

    def count(self, text: str) -> int:
        """Return how many tokens `text` has."""
        return self.counts([text])[0]

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Return `count` of each text; uses all cores."""
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [
            max(
                _fewest_tokens(text),
                len(encoding) if self._unknown.isdisjoint(encoding.ids) else len(self.offsets(text)),
            )
            for text, encoding in zip(texts, encodings, strict=True)
        ]

    def offsets(self, text: str) -> list[Span]:
        """Return the character span of each token, in order. Several tokens may share one character."""
        return self.offsets_of([text])[0]

    def offsets_of(self, texts: Sequence[str]) -> list[list[Span]]:
        """Return `offsets` of each text; uses all cores."""
        encodings = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [
            encoding.offsets
            if self._unknown.isdisjoint(encoding.ids)
            else list(self._with_unknown_split(text, encoding.ids, encoding.offsets))
            for text, encoding in zip(texts, encodings, strict=True)
        ]

    def known(self, text: str) -> str:
        """Return the text without unknown tokens; "" if no other token has a letter or a digit.

        A run of Chinese characters is one word, which is known if most of its characters are. Of a script that the
        vocabulary can only spell, words are unknown: all texts in it look alike. A single letter (the β of β-carotene)
        is known if no such word is beside it.
        """
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        scripts = [_script(char) for char in text]
        spelled = {one for one, next in pairwise(scripts) if one == next and one in self._spelled}
        letters = [" " if script in spelled else char for char, script in zip(text, scripts, strict=True)]
        for id, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
            if id in self._unknown:
                letters[start:end] = " " * (end - start)
        for run in _HAN.finditer(text):
            if 2 * letters[run.start() : run.end()].count(" ") >= len(run[0]):
                letters[run.start() : run.end()] = " " * len(run[0])
        rest = "".join(letters).strip()
        return rest if any(map(str.isalnum, rest)) else ""

    @cached_property
    def _spelled(self) -> frozenset[str]:
        """Scripts of whose words the vocabulary has hardly more than single letters."""
        single, longer = Counter[str](), Counter[str]()
        for token in self._tokenizer.get_vocab():
            if not token.isascii():
                letters = [char for char in token if char.isalpha() and char > "\x7f"]
                (longer if len(letters) > 1 else single)[_script(letters[0]) if letters else ""] += 1
        return frozenset(script for script, count in single.items() if script and longer[script] < count)

    def _with_unknown_split(self, text: str, ids: Sequence[int], spans: Sequence[Span]) -> Iterator[Span]:
        """Spans, with an unknown token as several of about four bytes."""
        for id, (start, end) in zip(ids, spans, strict=True):
            size = len(text[start:end].encode("utf-8", "replace")) if id in self._unknown else 0
            pieces = -(-size // _BYTES_PER_UNKNOWN_TOKEN) or 1
            for piece in range(pieces):
                begin = start + (end - start) * piece // pieces
                yield begin, max(begin + 1, start + (end - start) * (piece + 1) // pieces)


@lru_cache(maxsize=8192)
def _script(char: str) -> str:
    """The script of a letter or vowel sign, as its name begins ("CYRILLIC"); "" for Latin, Chinese and other signs."""
    if char <= "\x7f" or unicodedata.category(char)[0] not in "LM":
        return ""
    script = unicodedata.name(char, "").partition(" ")[0]
    return "" if script in ("LATIN", "CJK", "COMBINING", "MODIFIER") else script


def _fewest_tokens(text: str) -> int:
    """The fewest tokens that any model needs for a text, judging by its bytes."""
    written = "".join(text.split())
    blanks = len(text) - len(written)
    size = len(written) if written.isascii() else len(written.encode("utf-8", "replace"))
    return size // _MOST_BYTES_PER_TOKEN + blanks // _MOST_BLANKS_PER_TOKEN
