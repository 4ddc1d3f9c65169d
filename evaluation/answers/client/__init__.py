"""The bench as a client of the gateway: requests, replies and the budget.

request_bodies     a conversation as a request of each dialect
gateway_client     send one request, measure the time, return the reply
receipt_reader     read the injected passages from the gateway's receipts
collection_reader  read the documents of a collection
sender             send many requests at once, retry, and write each reply to a file
budget             the ceiling, and the cost of each request
"""
