"""Requests of a bench: one of them and its reply, many at once, and what they may use.

asking   one request, timed
receipts what the gateway tells of the passages
sending  requests, so many at once, tried again, each kept before the next step
spending the ceiling, and what counts towards it
"""
