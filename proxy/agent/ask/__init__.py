"""Model requests, in the form that each model takes, and replies as events.

model             asks, asks again in another form, counts, reads each round's reply and passes it on
transcript        a chat's messages for the model, in the form that it takes; those kept for the next request
tool_protocols    how each model is asked for calls, by tools or text, and what was learned
protocol_replies  replies of models that write calls as text
"""
