"""Shadow comparison: a chat is answered as usual; then the gateway asks the same model again without passages.

middleware  the choice of chats, the number at once, the budget, and the request without passages
reply       the bytes of a reply in transit -> the facts of the reply
comparison  both answers, and the stored JSON
"""
