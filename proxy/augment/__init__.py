"""The path of a chat to passages, in order.

middleware        reads, decides, injects, prepares the call; changes the request alone
gate              whether a request is augmented, from which collections, and why; the chat as one value
utility_requests  requests of a chat program for its own use (title, tags, summary), which get no passages
small_talk        messages that ask for nothing, which get no passages
history           the turns of a stored conversation, which a request continues by id
passages          the search within its deadline, and the text to inject
rewrite           the latest question as a model words it, raced with retrieval on the local form
context_window    how many tokens of passages the model's window has room for
inject            passages -> the text that the model reads
"""
