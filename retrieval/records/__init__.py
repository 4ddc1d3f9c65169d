"""Values that travel, by journey: frozen, without behaviour beyond their fields and checks.

documents   a document, with chunks and passages, and texts made from a chunk
points      a passage with its vectors, as a store keeps them
search      from a question to a context                  traces      a search's candidates, and their fates
attributes  a document's attributes and groups            filters     conditions on documents
ingest      from a path to a report, and the enrichments still missing
sync        declared sources, and what a sync of one did
jobs        from a document sent by a client to the result of writing it
files       files uploaded by clients

Character spans are half-open and count characters of `Document.text`; vectors are float32 of unit length.
"""
