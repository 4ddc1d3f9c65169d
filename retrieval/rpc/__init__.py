"""The index as a process of its own.

server   the index process: an index behind a socket
client   `Knowledge` over that socket (light: the gateway imports it)
codec    values <-> JSON               framing  JSON <-> frames on the socket
"""
