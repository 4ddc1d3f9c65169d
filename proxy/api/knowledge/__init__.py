"""The Knowledge API: collections, documents and searches without a chat, for whoever may use them.

Two dialects of the same: ours under /v1/knowledge, and OpenAI's vector stores (a collection is a vector store), so that
the client a team has will do. What may not be read is answered as what does not exist.

api        all of its routes
searches   passages for a query
receipts   what a chat was given, and why
documents  collections and documents: made, listed, read, exported, deleted
puts       documents that clients give
uploads    files that clients upload, and the jobs that write them    forms  how files come in
stores     OpenAI's dialect of both: vector stores    attachments  what is in them    files  OpenAI's files
description  all of it as OpenAPI (openapi.yaml)
access     what they share: the caller's rights, the search, what the index refuses    parameters  what a request says
"""
