"""The values that travel, by journey. Values only: frozen, without behaviour beyond their own fields.

documents   a document, its chunks and passages, and the texts made of a chunk
points      a passage with its vectors, as a store keeps both
search      from a question to a context
ingest      from a path to a report, and the enrichments that a model still has to write
jobs        from a document that a client sends to the result of writing the document
files       files that clients upload

Character spans are half-open and count characters of `Document.text`; vectors are float32 of unit length.
"""
