"""Chats with actions: operations of HTTP APIs (`proxy.apis`), offered to a model and called for the model.

arguments     whether the arguments of a call can be sent
said          what a person has said          chosen_rows  whether a person named the row of a list
asking        the gateway's questions to a person
known_texts   the texts in which a value may stand, without the gateway's words
actions       the sets that chats can use, and what a chat is offered
toolbox       what a tool is, and the tools of one chat
loop          the rounds of a chat until an answer
bridged       the rounds for clients of responses and messages
operation_tool, document_search, read_result  the tools
result_budget  the tokens and bytes of a chat's results
shelf         the whole results of a chat     result_reading  a page, a place or some rows of a result
negotiate     the form in which a model takes the requests of a chat
execution     the model's calls within the limits of a chat
memory        the hidden rounds of a conversation, for the next question
written_calls calls that a model writes as text, in place of a call of a tool
spelled_calls the spellings of such calls     quotes  whether such a text is only a quote
ways          how each model is asked for calls: by tools, a JSON schema or text; learned
protocols     requests for models that are not asked by tools
protocol_replies  replies of these models
model_reply   the model's reply of a round, as the reply passes      client_reply  the client's one reply of all rounds
"""
