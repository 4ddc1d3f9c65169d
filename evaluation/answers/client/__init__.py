"""The bench as the gateway's client: requests, replies and a budget.

request_bodies     a conversation as a request in each dialect
gateway_client     sends one request, measures time, returns the reply
receipt_reader     reads injected passages from the gateway's receipts
collection_reader  reads a collection's documents
sender             sends many requests at once, retries, and writes each reply to a file
budget             the ceiling, and what each request costs
"""
