"""The index as a separate process.

protocol    the operations of `Knowledge` as messages, read from the declarations; messages <-> frames on the socket
client      `Knowledge` over a socket (light: the gateway imports the client)
server      the index process: an index on a socket
"""
