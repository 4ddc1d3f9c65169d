"""The operator's and the user's view of a request.

middleware  outermost: opens the exchange, answers the gateway's errors, writes one log line
metrics     counters of every exchange, for Prometheus
processes   memory and more of the processes, free space of the disk, for Prometheus
receipts/   the question, the search result and the injected text of a chat, stored for a while
shadow/     shadow comparisons: the same chat again without passages
"""
