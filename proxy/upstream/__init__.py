"""The way of a request to the model, and of the reply back.

routes       name of a model -> target; lane of a target -> app
asked_model  the name of the model in the reply, where the upstream is asked for another name
relay        bytes both ways, for upstreams that speak the client's dialect
translated/  all other providers, through litellm
bridges/     another dialect than chat completions, for upstreams that know only chat completions
echo         a built-in provider that answers with the received messages
"""
