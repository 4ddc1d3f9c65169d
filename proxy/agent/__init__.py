"""A conversation, a model and tools in, an answer out: the rounds of a chat that may call HTTP APIs (`proxy.apis`).

actions       the sets that chats can use, and what a chat is offered
toolbox       what a tool is, and the tools of one chat      tools/  the tools
loop          the rounds of a chat until an answer
ask/          the form in which a model is asked for calls
execution     the model's calls within the limits of a chat
grounding/    whether the arguments of a call stand in the conversation
text_calls/   calls that a model writes as text
result_budget  the tokens and bytes of a chat's results
conversation  the hidden rounds of a conversation, for the next question
action_trace  the offer, the rounds and the calls, for log, metrics and receipts
model_reply   the model's reply of a round, as the reply passes      client_reply  the client's one reply of all rounds
"""
