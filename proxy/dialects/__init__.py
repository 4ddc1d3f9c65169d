"""A client API is a dialect: one object that reads and edits requests, reads replies and writes errors.

base             the protocol of a dialect, a request and a conversation
chat             OpenAI's chat completions
chat_reply       a chat completion's reply: read and written
json_body        a JSON body as bytes: read, and edited without changing any other byte
unsupported_features  the paths and members that upstreams lack, learned from answers
messages         Anthropic's Messages API
messages_reply   a message: read and written
content_encoding  unpacks a body within a limit
errors           one of our errors -> status and OpenAI's error body
paths            the dialect of a path
provider_fields  what a model's message has beyond the standard: thoughts and signatures, which go back to the model
quoting          the text of a document, made safe for a prompt
replies          the base of every reply reader: bytes -> events -> text, tool calls, usage, end, error
responses        OpenAI's Responses API
responses_reply  a response: read and written
sse              event-stream frames: built and split
target           where a model's requests go
token_counts     the tokens of a model call: reported, or estimated
"""
