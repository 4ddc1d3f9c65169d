"""The routes apart from chat completions.

knowledge/   collections, documents and searches without a chat
mcp          the Model Context Protocol              tools    the MCP tools: `search` and `fetch`
admin        keys, credentials and usage over HTTP
models       the models that a caller may call
passthrough  other paths under /v1, relayed          named    the model in the body of a relayed path
multipart    the parts of a form
count_tokens the tokens of a request for a message
advice       the answer to a request for an unknown path
"""
