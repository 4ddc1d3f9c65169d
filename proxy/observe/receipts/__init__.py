"""Receipts: the question of a chat, the search result and the injected text, stored for a while.

receipt        the facts of a chat, and the JSON
write_behind   the queue of unwritten receipts, and the writing thread
receipt_store  the stored receipts, in SQL
tables         the tables                      migrations/  the changes of the tables
shown          a receipt for a reader who may read every part
replay         the text for the same chat today, and the differences
"""
