"""The values that travel, by journey: frozen, without behaviour beyond the fields and their checks.

documents   a document, with chunks and passages, and the texts made of a chunk
points      a passage with vectors, as a store keeps both
search      from a question to a context                  traces      the candidates of a search, and their fates
attributes  a document's attributes and groups            filters     conditions on documents
ingest      from a path to a report, and the enrichments still missing
jobs        from a document sent by a client to the result of writing the document
files       files uploaded by clients

Character spans are half-open and count characters of `Document.text`; vectors are float32 of unit length.
"""
