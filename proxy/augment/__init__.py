"""How a chat gets its passages, in order.

middleware      reads, decides, searches within a deadline, injects, prepares the call; changes only the request
gate            whether to augment a request, from which collections, and why; a chat as one value
skipped         requests that get no passages: a chat program's own (title, tags, summary), and small talk
history         turns of stored conversations, which requests continue by id
rewrite         the latest question in a model's words, raced with retrieval for its local form
context_window  how many tokens of passages fit into the model's window
"""
