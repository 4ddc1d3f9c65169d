"""A client API is a dialect: one object that reads and edits requests, reads replies and writes errors.

base             what every dialect, request and conversation offers; what a person wrote in it
chat             OpenAI's chat completions
json_body        a JSON body as bytes: read, and edited without changing any other byte
messages         Anthropic's Messages API
codes            the code of a confirmation, and the message that confirms
content_encoding unpacks a body within a limit
errors           our errors -> status and OpenAI's error body
paths            path -> dialect
deviations       what models' messages have beyond the standard, which must go back; what upstreams lack
quoting          document text, made safe for a prompt; passages as a block
replies          reply readers: their base, and that of chat completions; bytes -> text, tool calls, tokens, end, error
responses        OpenAI's Responses API
sse              event-stream frames: built and split
target           where a model's requests go
"""
