"""The tools that a model is offered.

operation_tool   an operation of an API
document_search  the search of documents
query_tables     a team's databases
calculator       exact arithmetic
dates            dates, durations and time zones
units            units of measurement
wording          words of a question that show that a small tool may help
read_result      reading on in a result
result_store     the whole results of a chat
result_reading   a page, a place or some rows of a result
"""
