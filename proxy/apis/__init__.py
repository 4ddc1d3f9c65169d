"""Other people's HTTP APIs, described by OpenAPI documents: read, found and called. Knows no chat.

openapi/      an OpenAPI document to operations
mcp/          the tools of MCP servers
sources       a document's bytes, from a file or URL
specs         a document to what a set stores, in its own process
library       action sets: stored in SQL, searched by what people say, and operations offered without a search
tables, migrations/  their tables
search_text   texts by which operations are found     html_text  HTML to text
schema_check  a value by a JSON Schema
request       an operation and arguments to an HTTP request
call          one call: checked, sent, tried again, cut
allowed_values  the values that an argument may have
credentials   what an API asks for, and masked in what it sends back
addresses     connections to checked addresses only, and bodies up to a limit
changes       what a write changed, from two responses
results       a response as a text for a model
"""
