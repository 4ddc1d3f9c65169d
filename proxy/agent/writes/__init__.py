"""Calls that change something: shown to a person, confirmed by the person's next message, sent once.

mode     whether a call is refused, waits for a person, or is made at once
confirming  from a round's calls to the reply that shows them, and from the code line to the claimed requests
sending  the confirmed requests, with a result for the model each
approving  answers by a button or over MCP, in place of the code line
pending  the writes that wait, and what became of them: each step is one conditional update
sealer   the database's secret: seals requests, hashes codes, signs the log
shown    the text by which a person decides      sentences  its words      visible  characters that deceive
audit    the log of writes, a signed chain          signed_receipts  one write's part of it, checked offline
tables   of the store, the log and the secret          migrations/  their changes
"""
