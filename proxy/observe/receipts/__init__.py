"""Receipts: the question of a chat, the search result and the injected text, stored for a while.

receipt        the facts of a chat, the JSON, and the queue of unwritten receipts
shown          a receipt for a reader who may read every part
replay         the text for the same chat today, and the differences
"""
