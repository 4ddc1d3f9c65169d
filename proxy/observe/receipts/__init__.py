"""Receipts: the question of a chat, the search result and the text that the model got, stored for a while.

receipt        the facts of one chat, and their JSON
write_behind   the queue of unwritten receipts, and the thread that writes
receipt_store  the stored receipts, in SQL
tables         the tables                      migrations/  the changes of the tables
shown          a receipt for a reader who may read every part
replay         the text that would be injected today, and the differences
"""
