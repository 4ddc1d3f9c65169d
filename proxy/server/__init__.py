"""Sockets and processes: the way of bytes to the app, and the serving processes.

http1          the HTTP/1.1 server: connections accepted, drained, cut; requests to calls of the app and back
workers        the worker processes
index_process  the index process: started, watched, restarted
child          the end and the replacement of both
"""
