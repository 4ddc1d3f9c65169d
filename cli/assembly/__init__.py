"""The composition root, in one file a product part: settings to objects.

index    what the index process is told
stores   accounts, credentials, usage, receipts, histories, comparisons
models   which model goes where, with whose key
chats    the texts around passages, rewriting, shadow comparisons
apis     the APIs that are called; imported if an API is configured
gateway  all parts together
"""
