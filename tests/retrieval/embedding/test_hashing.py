from pathlib import Path

import numpy as np

from retrieval.embedding.embed import EmbedderPrompts
from retrieval.embedding.export import open_embedder
from retrieval.embedding.hashing import HashEmbedder
from tests.retrieval.embedding.test_models import options
from tests.support.minilm import tokenizer_file


def test_vectors_have_unit_length_and_texts_that_share_words_are_near() -> None:
    embedder = HashEmbedder(tokenizer_file(), EmbedderPrompts())
    texts = ["Open a TLS session", "open the session with tls", "The office dog is called Bruno", "", "…", "\ud800"]
    vectors = embedder.embed_documents(texts)
    assert vectors.shape == (6, embedder.dimension)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1)
    near, far = vectors[0] @ vectors[1], vectors[0] @ vectors[2]
    assert near > 0.5 > abs(far)


def test_the_same_text_has_the_same_vector_in_every_process() -> None:
    (vector,) = HashEmbedder(tokenizer_file(), EmbedderPrompts()).embed_query(["hash"])
    assert {int(place): float(vector[place]) for place in np.flatnonzero(vector)} == {184: 1.0}


def test_hash_is_a_model_by_name_and_takes_prompts(tmp_path: Path) -> None:
    prompts = options(query_prompt="query: ", document_prompt="passage: ")
    embedder = open_embedder("hash", backend="auto", threads=1, cache=tmp_path, options=prompts, bulk=True)
    plain = HashEmbedder(tokenizer_file(), EmbedderPrompts())
    assert embedder.document_prompt == "passage: "
    assert np.array_equal(embedder.embed_query(["x"]), plain.embed_query(["query: x"]))
    assert np.array_equal(embedder.embed_documents(["x"]), plain.embed_documents(["passage: x"]))
    assert not list(tmp_path.iterdir()), "nothing is prepared"
