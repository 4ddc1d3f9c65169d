"""What a client API looks like in bytes.

chat   a chat completion's request: read, and edited without changing any other byte
reply  a chat completion's reply -> text, finish reason, usage, error
sse    event-stream frames: built and split
"""
