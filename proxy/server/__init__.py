"""Sockets and processes: how bytes reach the app, and which processes serve.

http1          one client's connection: HTTP/1.1 requests to calls of the app
request        one request and its reply: ASGI's `receive` and `send`
drain          the connections of a process: accepted, drained, cut
workers        worker processes, where one process is not enough
index_process  the index process: started, watched, started again
"""
