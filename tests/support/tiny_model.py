"""A sentence-transformers model of random weights: small enough to make in a test, loaded as any other is."""

from pathlib import Path
from typing import Any

_WORDS = (
    "how do i connect to the database with tls use open a session server pass true and path of certificate authority "
    "encrypt connection on wire add driver insert one record office dog is called what page number it in java kotlin"
).split()


def make_tiny_model(folder: Path, *, seed: int = 0) -> Path:
    """Save a BERT of two layers, dimension 16 and 64 positions under `folder`; returns it."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertModel

    torch.manual_seed(seed)
    source = folder.with_name(folder.name + "-source")
    source.mkdir(parents=True)
    BertModel(_tiny_bert(source)).save_pretrained(source)
    transformer = Transformer(str(source), max_seq_length=64)
    model = SentenceTransformer(modules=[transformer, Pooling(16)], device="cpu")
    model.save(str(folder))
    return folder


def make_tiny_cross_encoder(folder: Path, *, seed: int = 0, outputs: int = 1) -> Path:
    """Save a BERT of the same size that gives a pair of texts `outputs` scores under `folder`; returns it."""
    import torch
    from transformers import BertForSequenceClassification

    torch.manual_seed(seed)
    folder.mkdir(parents=True)
    BertForSequenceClassification(_tiny_bert(folder, num_labels=outputs)).save_pretrained(folder)
    return folder


def _tiny_bert(folder: Path, **more: Any) -> Any:
    """The configuration; the tokenizer is saved to the folder."""
    from transformers import BertConfig, BertTokenizer

    letters = [chr(i) for i in range(33, 127)] + ["##" + chr(i) for i in range(33, 127)]
    vocabulary = dict.fromkeys(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *_WORDS, *letters])
    BertTokenizer(vocab={word: i for i, word in enumerate(vocabulary)}).save_pretrained(folder)
    return BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        **more,
    )
