"""Sockets and processes: the way of bytes to the app, and the serving processes.

http1          one client's connection and one request: from HTTP/1.1 to calls of the app and back
drain          the connections of a process: accepted, drained, cut
workers        the worker processes
index_process  the index process: started, watched, restarted
"""
