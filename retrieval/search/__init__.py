"""A question's path, in order.

pipeline   the orchestrator: calls the rest from top to bottom
rewrite    conversation -> a query that stands alone
fuse       both arms' hits -> one list; what is relevant in it
pack       hits -> the context that fits the budget
"""
