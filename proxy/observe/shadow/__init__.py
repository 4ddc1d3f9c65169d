"""Shadow comparison: a chat is answered as usual; then the same model is asked again without passages.

middleware  chooses chats, limits number and budget, and sends the request without passages
reply       a reply's bytes in transit -> facts about it
comparison  both answers, and their JSON
"""
