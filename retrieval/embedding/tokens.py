"""Text to tokens of the embedder's own tokenizer: how many there are, and where each one stands.

A chunk that is longer than its embedder reads is cut silently, so chunks are measured in that embedder's tokens.
A `tokenizer.json` may ask for truncation and padding (the MiniLM package's cuts and pads at 128): both are off here.
Special tokens ([CLS], [SEP] …) are not counted; whoever sets a budget leaves room for them.
"""

from collections.abc import Sequence
from pathlib import Path

Span = tuple[int, int]


class Tokens:
    """Counts and locates tokens; safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        """Read `path`, a tokenizer.json. Raises FileNotFoundError or ValueError when it is none."""
        from tokenizers import Tokenizer  # 60 ms and a native library: only for those who count

        if not path.is_file():
            raise FileNotFoundError(f"no tokenizer at {path}: expected the embedder's tokenizer.json")
        try:
            self._tokenizer = Tokenizer.from_buffer(path.read_bytes())
        except ValueError as error:
            raise ValueError(f"{path} is not a tokenizer.json ({error}): give the embedder's own file") from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def count(self, text: str) -> int:
        """The number of tokens of `text`."""
        return len(self._tokenizer.encode(text, add_special_tokens=False))

    def counts(self, texts: Sequence[str]) -> list[int]:
        """`count` of each text, all cores at once."""
        return [len(found) for found in self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]

    def offsets(self, text: str) -> list[Span]:
        """The character span of each token, in order. Several tokens may share one character."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).offsets)

    def offsets_of(self, texts: Sequence[str]) -> list[list[Span]]:
        """`offsets` of each text, all cores at once."""
        return [list(found.offsets) for found in self._tokenizer.encode_batch(list(texts), add_special_tokens=False)]
