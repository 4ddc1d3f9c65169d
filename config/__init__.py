"""Everything that a user may change.

settings      read and merge the settings     sections  the typed sections, with the bounds of each value
default.yaml  every key with the default            prompts/  prompt files
utility_requests.yaml  prompts of chat programs that get no passages
small_talk.yaml        phrases of small talk, which gets no passages
"""
