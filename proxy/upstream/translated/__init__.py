"""The translated lane: any provider that litellm knows, in OpenAI's dialect.

lane     the app: a chat completion in, OpenAI's JSON or events out
request  what of a client's body may reach litellm
calls    what litellm may not do for a client
reply    litellm's replies as OpenAI's JSON
errors   litellm's errors in OpenAI's form
thread   the thread with an event loop of its own in which litellm works
"""
