"""Sockets and processes: how bytes reach the app, and who serves it.

http1          HTTP/1.1: accepts, drains and cuts connections; turns requests into app calls
workers        worker processes
index_process  starts, watches and restarts the index process
child          how both end and are replaced
"""
