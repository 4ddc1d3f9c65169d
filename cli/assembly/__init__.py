"""The composition root, in one file a product part: settings to objects.

index    what the index process is told
stores   accounts, credentials, usage, receipts, histories, comparisons
targets  which model goes where, with whose key
models   the ways to all models, and their calls by a command
chats    the texts around passages, rewriting, shadow comparisons
apis     the APIs that are called; imported if an API is configured
gateway  all parts together
"""
