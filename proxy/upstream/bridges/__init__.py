"""Bridges: an upstream that knows only chat completions answers a request of another dialect.

missing_paths      the app around a lane, for upstreams without a path
bridge             a request of another dialect in, the dialect's reply out
members            the members of a client's objects, read strictly
conversation       the order and the forms of messages that strict servers take
responses_request  a request for a response as a request for a chat completion
messages_request   the same for a request for a message of Anthropic's API
reply_writer       the base of writers: chunks of a chat completion in, events of a dialect out
response_writer    a chat completion as a response
message_writer     a chat completion as a message

litellm has bridges of its own, which the gateway does not use. Tried with litellm 1.106.2, the bridges end a cut stream
as a whole reply, drop a streamed refusal, drop `previous_response_id`, `prompt` and `background` without an error, and
keep the tool calls of all clients in one cache: a tool result without a call gets the call of another client.
"""
