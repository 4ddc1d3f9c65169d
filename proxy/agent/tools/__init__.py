"""The tools that a model is offered.

operation_tool   an operation of an API
document_search  the search of documents
read_result      reading on in a result
result_store     the whole results of a chat
result_reading   a page, a place or some rows of a result
"""
