"""Bridges: an upstream that knows only chat completions answers requests in other dialects.

missing_paths      wraps a lane, for upstreams that lack a path
bridge             a request in another dialect in, a reply in that dialect out
members            members of a client's objects, read strictly
conversation       messages in the order and forms that strict servers take
responses_request  turns a request for a response into one for a chat completion
messages_request   does the same for Anthropic messages
reply_writer       base class for writers: chat completion chunks in, a dialect's events out
response_writer    writes a chat completion as a response
message_writer     writes a chat completion as a message

litellm has its own bridges, which we do not use. In litellm 1.106.2 they end a cut stream as a whole reply, drop
streamed refusals, drop `previous_response_id`, `prompt` and `background` without an error, and keep all clients' tool
calls in one cache: a tool result without a call gets another client's call.
"""
