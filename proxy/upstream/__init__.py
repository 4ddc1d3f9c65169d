"""Where a request goes, and where its reply's bytes come from.

routes       a model's name -> its target; a target's lane -> its app
relay        bytes both ways, for upstreams that speak OpenAI's dialect
client       the relay's HTTP/1.1 client and its pool      connection   one connection of the pool
translated/  any other provider, through litellm
echo         a pretend provider that answers with the messages it received
"""
