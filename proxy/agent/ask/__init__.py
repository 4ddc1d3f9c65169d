"""A request for the model, in the form that it takes, and its reply as events.

model             asks, asks again in another form, counts, and passes the reply on
turn              the reply of one round
tool_protocols    how each model is asked for calls, by tools or text: learned, and its requests
protocol_replies  replies of these models
"""
