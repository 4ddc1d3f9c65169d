"""Other people's HTTP APIs, described by OpenAPI documents: read, found and called. Knows no chat.

openapi/      an OpenAPI document to operations
sources       the bytes of a document, from a file or a URL
specs         a document to what a set stores, in a process of its own
library       action sets: written, and searched by what people say
store         the definitions in SQL        tables, migrations/  the tables
proper_names  a question without names, for a second search
search_text   the texts by which an operation is found      html_text  HTML to text
baked_in      operations that a chat is offered without a search
schema_check  a value by a JSON Schema
request       an operation and arguments to an HTTP request
call          one call: checked, sent, tried again, cut
credentials   what an API asks for          addresses  connections to checked addresses only
masking       secrets that an API sends back
response_body  a response's bytes, within a limit     results  a response as a text for a model
"""
