"""The Knowledge API: collections, documents and searches without a chat, for callers with rights to them.

It has two dialects: ours under /v1/knowledge, and OpenAI's vector stores (a collection is a vector store), so that a
team's existing client works. Callers cannot tell unreadable content from missing content.

api          all routes
searches     passages for a query
receipts     a chat's passages, and why
documents    makes, lists, reads, exports and deletes collections and documents
puts         documents sent by clients
uploads      files uploaded by clients, and jobs that write them    forms  multipart bodies
action_sets  action sets and operations, if an API is configured
tables       databases and their rows, if a database is configured
pending      calls that wait for a person, if an API has calls that change something
stores       OpenAI's vector stores    attachments  their files    files  OpenAI's files
description  the OpenAPI document    declarations  its source, at each handler    schemas  for types    filters
endpoint     a declared operation as a route    access  its rules: rights, search, index errors
parameters   checks of query and body
"""
