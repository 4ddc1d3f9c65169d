"""What operators and users see of a request.

middleware  outermost: opens an exchange, answers our errors, writes one log line
metrics     counters, for Prometheus
processes   process memory and more, free disk space, for Prometheus
receipts/   a chat's question, search result and injected text, stored for a while
shadow/     shadow comparisons: the same chat again without passages
"""
