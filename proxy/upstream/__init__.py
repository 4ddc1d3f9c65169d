"""Where a request goes, and where its reply's bytes come from.

routes       a model's name -> its target; a target's lane -> its app
relay        bytes both ways, for upstreams that speak OpenAI's dialect
client       the relay's HTTP/1.1 client: connections, and a pool of connections per upstream
translated/  any other provider, through litellm
echo         a pretend provider that answers with the messages it received
"""
