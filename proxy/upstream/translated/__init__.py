"""The translated lane: any provider that litellm knows, in OpenAI's dialect.

lane     the app: a chat completion in, OpenAI's JSON or events out
request  what may reach litellm of a client's body
calls    keeps litellm from redirects, repeats and fetches
reply    litellm's replies as OpenAI's JSON
errors   litellm's errors in OpenAI's form
thread   a thread with its own event loop, for all of litellm's work
"""
