"""Text to tokens of the embedder's own tokenizer: the number of tokens, and the place of each token.

An embedder silently cuts a chunk that is too long, so chunks are measured in the embedder's own tokens. A
`tokenizer.json` may switch on truncation and padding (MiniLM's file cuts and pads at 128): both are off here. Special
tokens ([CLS], [SEP] …) are not counted; a token budget must leave room for special tokens.
"""

from collections.abc import Sequence
from pathlib import Path

Span = tuple[int, int]


class EmbedderTokenizer:
    """Counts and locates tokens; thread-safe."""

    def __init__(self, path: Path) -> None:
        """Read `path`, a tokenizer.json. Raises FileNotFoundError, or ValueError if the file is no tokenizer.json."""
        from tokenizers import Tokenizer  # 60 ms and a native library: only imported to count

        if not path.is_file():
            raise FileNotFoundError(f"no tokenizer at {path}: expected the embedder's tokenizer.json")
        try:
            self._tokenizer = Tokenizer.from_buffer(path.read_bytes())
        except ValueError as error:
            raise ValueError(f"{path} is not a tokenizer.json ({error}): give the embedder's own file") from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def count(self, text: str) -> int:
        """Return the number of tokens of `text`."""
        return len(self._tokenizer.encode(text, add_special_tokens=False))

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Return `count` of each text; uses all cores."""
        return [len(encoding) for encoding in self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]

    def offsets(self, text: str) -> list[Span]:
        """Return the character span of each token, in order. Several tokens may share one character."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).offsets)

    def offsets_of(self, texts: Sequence[str]) -> list[list[Span]]:
        """Return `offsets` of each text; uses all cores."""
        return [
            list(encoding.offsets) for encoding in self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        ]
