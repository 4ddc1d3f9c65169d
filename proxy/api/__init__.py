"""All routes but chats.

knowledge/   collections, documents and searches without a chat
mcp          the Model Context Protocol              tools    the MCP tools: `search` and `fetch`
action_tools  `find_actions` and `run_action`        table_tools  `find_tables` and `query_tables`
admin        keys, credentials and usage over HTTP
models       models that a caller may use
passthrough  other paths under /v1, relayed          named    the model in a relayed body
multipart    a form's parts
count_tokens tokens in a request for a message
advice       answers requests for unknown paths
"""
