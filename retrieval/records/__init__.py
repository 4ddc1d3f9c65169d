"""The values that travel, by journey. Values only: frozen, without behaviour beyond the fields.

documents   a document, with chunks and passages, and the texts made of a chunk
points      a passage with vectors, as a store keeps both
search      from a question to a context
ingest      from a path to a report, and the enrichments still missing
jobs        from a document sent by a client to the result of writing the document
files       files uploaded by clients

Character spans are half-open and count characters of `Document.text`; vectors are float32 of unit length.
"""
