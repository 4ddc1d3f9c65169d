"""A conversation, a model and tools in, an answer out: the rounds of a chat that may call HTTP APIs (`proxy.apis`).

actions       the sets that chats can use, and what a chat is offered
toolbox       what a tool is, and the tools of one chat      tools/  the tools
loop          the rounds of a chat until an answer
ask/          a request for the model, in the form that it takes, and its reply as events
execution     the model's calls within the limits of a chat
grounding/    whether the arguments of a call stand in the conversation
text_calls/   calls that a model writes as text
writes/       calls that change something: confirmed by a person, sent once, and logged
conversation  the hidden rounds of a conversation, for the next question
events        a reply's events as values, and the client's one reply of all rounds
"""
