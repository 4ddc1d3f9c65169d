"""How a request reaches its model, and how the reply comes back.

routes       model name -> target; target's lane -> app; the asked name in the reply
relay        bytes both ways, for upstreams that speak the client's dialect
translated/  all other providers, through litellm
bridges/     other dialects, for upstreams that know only chat completions
echo         a built-in provider that answers with the messages it received
"""
