"""The form in which a model is asked for calls.

negotiate         the form that a model takes, found by asking again
tool_protocols    how each model is asked for calls: by tools, a JSON schema or text; learned
request_forms     requests for models that are not asked by tools
protocol_replies  replies of these models
"""
