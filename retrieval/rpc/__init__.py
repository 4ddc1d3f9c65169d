"""The index as a separate process.

client      `Knowledge` over a socket, and its operations as messages (light: the gateway imports it)
server      the index process: an index on a socket
"""
