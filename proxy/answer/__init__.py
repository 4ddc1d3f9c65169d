"""The loop of `proxy.agent` behind HTTP.

bridged  the rounds, also for clients of responses and messages
"""
