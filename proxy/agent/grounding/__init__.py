"""Whether the arguments of a call stand in the conversation, and what a person is asked if they do not.

arguments    whether the arguments of a call can be sent
origins      who gave each value: the person, the operator, a passage, a result, or the model alone
said         what a person has said
chosen_rows  whether a person named the row of a list
asking       the gateway's questions to a person
"""
