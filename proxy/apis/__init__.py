"""Other people's HTTP APIs, described by OpenAPI documents: read, found and called. Knows no chat.

openapi/      an OpenAPI document to operations
sources       the bytes of a document, from a file or a URL
specs         a document to what a set stores, in a process of its own
library       action sets: written, searched by what people say, and operations that are offered without a search
store         the definitions in SQL        tables, migrations/  the tables
search_text   the texts by which an operation is found      html_text  HTML to text
schema_check  a value by a JSON Schema
request       an operation and arguments to an HTTP request
call          one call: checked, sent, tried again, cut
policy        which operations change something, and how they are called, by the settings
credentials   what an API asks for, and masked in what it sends back
addresses     connections to checked addresses only, and bodies within a limit
changes       what a write changed, from two responses
results       a response as a text for a model
"""
