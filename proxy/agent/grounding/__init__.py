"""Whether a call's arguments occur in the conversation, and what a person is asked if they do not.

arguments    whether a call's arguments can be sent, and the gateway's questions to a person
origins      who gave each value: the person, the operator, a passage, a result, or the model alone
said         what a person has said
chosen_rows  whether a person named a list's row
"""
