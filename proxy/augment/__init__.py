"""A chat's path to its passages, in order.

middleware        reads, decides, retrieves, injects, forwards; only the request is ever changed
gate              whether a request is augmented, from which collections, and why
utility_requests  requests that a chat program makes for itself (title, tags, summary): they get no passages
rewrite           the latest question as a model words it, raced with retrieval on the local form
context_window    how many tokens of passages the model's window has room for
inject            passages -> the text that the model reads
sanitize          a document's text, safe to show to a model
"""
