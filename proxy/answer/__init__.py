"""The loop of `proxy.agent` behind HTTP.

offers   which chats are offered operations, and their calls
bridged  the rounds, also for clients of responses and messages
"""
