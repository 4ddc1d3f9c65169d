"""Shadow comparison: a chat is answered as usual; then the gateway asks the same model again without passages.

middleware  which chats, how many at once, within which budget; and the request without passages
reply       a reply's bytes as they pass -> what the reply was
comparison  both answers, and the JSON that is kept of them
"""
