"""The Knowledge API: collections, documents and searches without a chat, for callers with the rights.

The API has two dialects: ours under /v1/knowledge, and OpenAI's vector stores (a collection is a vector store), so a
team's existing client works. A caller cannot tell unreadable content from missing content.

api          all routes
searches     passages for a query
receipts     the passages of a chat, and the reasons
documents    collections and documents: made, listed, read, exported, deleted
puts         documents sent by clients
uploads      files uploaded by clients, and the jobs for writing the files    forms  multipart bodies
action_sets  action sets and operations, where an API is configured
stores       OpenAI's vector stores    attachments  the files of vector stores    files  OpenAI's files
description  the OpenAPI document    declarations  its source, at each handler    schemas  of types    filters
endpoint     a declared operation as a route    access  its rules: rights, the search, errors of the index
parameters   checks of query and body
"""
