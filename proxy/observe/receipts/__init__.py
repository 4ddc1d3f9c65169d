"""Receipts: what a chat was asked, what was found for it and what the model was shown, kept for a while.

receipt  what is known of one chat, and the JSON that is kept of it
keeper   those that are not written yet, off a request's way
shelf    where they are kept, in SQL
tables   its tables                      migrations/  how they came about
shown    what a reader is shown, where he may read all of it
replay   what would be injected today, and what differs
"""
