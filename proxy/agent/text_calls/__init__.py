"""Calls that a model writes as text, in place of a tool call.

written_calls  such calls in a reply, in all spellings
quotes         whether such a text is only a quote
"""
