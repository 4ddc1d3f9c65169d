"""Everything that a user may change.

settings      read and merge the settings     sections  typed sections, with each value's bounds
default.yaml  every key with its default            prompts/  prompt files
utility_requests.yaml  chat programs' own prompts, which get no passages
small_talk.yaml        phrases and words of small talk, which gets no passages
"""
