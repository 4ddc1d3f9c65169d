"""What operators and users see of a request.

middleware  outermost: opens the exchange, answers our own errors, writes one log line
metrics     counters of every exchange, for Prometheus
receipts/   what a chat was asked, found and given, kept for a while
shadow/     shadow comparisons: the same chat asked again without passages
"""
