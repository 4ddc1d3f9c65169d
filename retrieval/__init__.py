"""Text in, ranked passages out; knows nothing of the gateway or of its settings.

records      the values that travel          errors     what can go wrong
knowledge    what can be asked (`Knowledge`) and what an index must know to answer (`Plan`)
remote       the client of the index process (light: the gateway imports it)
wire         what a search found, as it crosses the socket
service      the index process, and the index itself: everything that holds the data folder
catalog      collections, documents and their revisions, in SQL
embed        texts -> unit vectors           export     a model, by name or path -> its embedder
logs         what both processes write to standard error, without what anybody said
terms        text -> sparse BM25 vector      tokens     text -> number of model tokens
ingest/      a document's path               search/    a question's path
stores/      points of many tenants: base (the promises), edge, qdrant, okapi
"""
