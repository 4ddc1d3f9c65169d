"""Text in, ranked passages out; knows nothing of the gateway or of its settings.

errors      what can go wrong
records/    the values that travel, by journey
knowledge   what can be asked (`Knowledge`), and what an index must know to answer (`Plan`)
attributes  of documents, and the groups that may read them      filters     conditions on documents
traces      how a search came to what it found
ingest/     a document's path                          search/     a question's path
embedding/  texts -> vectors                           lexical/    texts -> BM25 terms
catalog/    collections, documents and revisions, in SQL
stores/     points of many tenants: base (the promises), edge, qdrant, okapi
index/      everything that holds the data folder, in one object
rpc/        the index as a process of its own: server, client, codec
"""
