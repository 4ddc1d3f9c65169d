"""The composition root, one file per product part: settings become objects.

index    what the index process is told
sources  the declared sources of collections
stores   accounts, credentials, usage, receipts, histories, comparisons
targets  which model goes where, with whose key
models   ways to all models, and calls by commands
chats    texts around passages, rewriting, shadow comparisons
apis     APIs and tools that are called; imported if one is configured
tools    the tools of the setting, also of other packages
tables   databases and files that are asked in SQL
gateway  all parts together
"""
