"""Text in, ranked passages out; knows nothing of the gateway or of its settings.

records      the values that travel          errors     what can go wrong
traces       how a search came to what it found
knowledge    what can be asked (`Knowledge`) and what an index must know to answer (`Plan`)
remote       the client of the index process (light: the gateway imports it)
frames       what travels on the socket      wire       what a search found, as it crosses it
service      the index process: an index behind a socket
index        everything that holds the data folder, in one object       shards    that folder, and the stores in it
pairing      whether the catalog is the one that the index beside it was made from
catalog      collections, documents and their revisions, in SQL        revisions  its values
changes      what others must hear of                                  replicas   who listens
locks        in PostgreSQL                                                writers    who may write to a collection
catalog_tables  its tables            documents    lists of them, and whole texts
files        that clients uploaded
jobs         documents that wait in the catalog until they are written    spool      where uploads rest before
filters      what a caller asks to be true of documents
attributes   of documents, and the groups that may read them: what they may be     descriptions  both, in SQL
database     SQLite or PostgreSQL, opened and brought up to date       migrations/  how the tables came about
embed        texts -> unit vectors           export     a model, by name or path -> its embedder
precision    whether bf16 pays              remote_embed  a provider's embedder, through litellm
questions    questions -> vectors: from memory, or together with others that come at once
lanes        each embedder in use with its store, and what writes and searches there
builds       generations in the making, and which embedder each needs
vector_cache vectors of documents' texts, kept between runs
audit        whether the points are those that the catalog says
logs         what both processes write to standard error, without what anybody said
garbage      how seldom both collect it
scheduling   which process has a core where several want it
terms        text -> sparse BM25 vector      tokens     text -> number of model tokens
language     of a collection: stop words, stemming, which of them its texts are in
ingest/      a document's path               search/    a question's path
evaluate/    judged questions -> how well each way to search answers them
stores/      points of many tenants: base (the promises), edge, qdrant, okapi
"""
