"""Text in, ranked passages out; independent of the gateway and of settings.

errors      errors that callers handle
records/    values passed between modules, by journey
knowledge   operations on documents (`Knowledge`), and the configuration of an index (`Plan`)
ingest/     from a file to points                                 search/     from a question to passages
embedding/  texts -> vectors                                      lexical/    texts -> BM25 terms
catalog/    collections, documents and revisions, in SQL
stores/     points of many tenants: base (the promises), edge, qdrant
index/      owns the data folder: all parts together
rpc/        the index as a separate process: server, client, codec
"""

import os

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # onnxruntime reports its use to Microsoft, from its import on
