"""The translated lane: any provider that litellm knows, in OpenAI's dialect.

lane     the app: a chat completion in, OpenAI's JSON or events out
request  the parts of a client's body that may reach litellm
calls    keeps litellm from redirects, repeats and fetches
reply    litellm's replies as OpenAI's JSON
errors   litellm's errors in OpenAI's form
thread   a thread with an event loop for all of litellm's work
"""
