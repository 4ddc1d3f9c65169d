"""Everything that a user may change.

settings      read, merge and type the settings     sections  the typed sections
checks        checks of values
default.yaml  every key with the default            prompts/  prompt files
utility_requests.yaml  prompts of chat programs that get no passages
small_talk.yaml        phrases of small talk, which gets no passages
"""
