"""What a user may change.

settings      read, merged and typed         sections  their schema
checks        what a value may be
default.yaml  every key with its default     prompts/  texts as files
utility_requests.yaml  prompts of programs that get no passages
"""
