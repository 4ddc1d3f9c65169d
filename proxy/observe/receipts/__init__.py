"""Receipts: a chat's question, search result and injected text, stored for a while.

receipt        facts about a chat, their JSON, and a queue of unwritten receipts
shown          a receipt for readers who may see every part
replay         what the same chat would get today, and how that differs
"""
