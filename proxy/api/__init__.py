"""The routes beside chat completions.

knowledge/   collections, documents and searches without a chat
mcp          the Model Context Protocol              tools    what an MCP client is offered: `search` and `fetch`
models       what a caller may call
passthrough  other paths under /v1, relayed          named    the model that such a path's body names
advice       what a request for an unknown path is told
"""
