"""The index as a separate process.

operations  the operations of `Knowledge` as messages, read from the declarations
client      `Knowledge` over a socket (light: the gateway imports the client)
server      the index process: an index on a socket
framing     messages <-> frames on the socket
"""
