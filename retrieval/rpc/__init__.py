"""The index as a process of its own.

operations  the operations of `Knowledge` as messages, read from its declarations
client      `Knowledge` over a socket (light: the gateway imports this module)
server      the index process: an index on a socket
framing     messages <-> frames on the socket
"""
