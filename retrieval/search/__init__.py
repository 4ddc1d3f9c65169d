"""From a question to passages, in order.

retriever    the orchestrator: runs the stages from top to bottom
rewrite      conversation -> a query that stands alone
split        several questions in one message: separate searches, one result
okapi        rank-bm25 as the lexical arm: the reference and a baseline
relevance    the units of scores, and the probability of a relevant hit
fuse         hits of both arms -> one list
exact_match  candidates that contain the question's exact terms first
recency      newer documents before older ones of equal fit
rerank       a cross-encoder reads the first passages with the question and sorts them
pack         hits -> a context within the budget
copies       whether a passage only repeats another passage
neighbours   adjacent passages -> one passage
explain      the trace: what became of every candidate
expand       packed context -> context shown: neighbours, whole documents, a whole collection
"""
