"""The tools of MCP servers as operations: listed into action sets, and called.

listing    a server's list of tools as a document, and the document to operations
server     sessions with one server, its list, and calls of its tools
http_transport  the SDK's requests over the gateway's connections
stdio      a server as a child process
lines      a stream's lines up to a limit
results    a tool's result as bytes for a model
"""
