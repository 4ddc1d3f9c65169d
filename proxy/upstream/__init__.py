"""Where a request goes, and where its reply's bytes come from.

base         a model's name -> its target; a target's lane -> its app
relay        bytes both ways, for upstreams that speak OpenAI's dialect
client       the relay's HTTP/1.1 client and its pool      connection   one connection of it
translated   any other provider, through litellm (translated_request: what reaches it; translated_calls: what its
             clients may not do; translated_reply: what comes back; translated_errors: what goes wrong;
             translated_thread: where litellm works)
ask          the gateway's own questions to a model, through the same lanes
echo         a pretend provider that answers with the messages it received
"""
