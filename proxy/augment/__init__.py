"""How a chat gets its passages, in order.

middleware        reads, decides, injects, prepares the call; changes only the request
gate              whether to augment a request, from which collections, and why; a chat as one value
utility_requests  a chat program's own requests (title, tags, summary), which get no passages
small_talk        messages that ask for nothing, which get no passages
history           turns of stored conversations, which requests continue by id
passages          search within a deadline, and the text to inject
rewrite           the latest question in a model's words, raced with retrieval for its local form
context_window    how many tokens of passages fit into the model's window
inject            passages -> what the model reads
"""
