"""Model requests, in the form that each model takes, and replies as events.

model             a chat's messages for the model: asks, asks again in another form, counts, passes the reply on
turn              one round's reply
tool_protocols    how each model is asked for calls, by tools or text: what was learned, and requests
protocol_replies  replies of models that write calls as text
"""
