"""The index as a separate process.

protocol    `Knowledge`'s operations as messages, read from their declarations; messages <-> frames on a socket
client      `Knowledge` over a socket (light: the gateway imports it)
server      the index process: an index on a socket
"""
