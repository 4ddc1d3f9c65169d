"""Sockets and processes: how bytes reach the app, and which processes serve.

http1          one client's connection, and one request: HTTP/1.1 to calls of the app and back
drain          the connections of a process: accepted, drained, cut
workers        worker processes, where one process is not enough
index_process  the index process: started, watched, started again
"""
