"""From a question to passages, in order.

retriever  the orchestrator: runs the stages from top to bottom
rewrite    conversation -> queries that stand alone, one for each question of a message
okapi      rank-bm25 as the lexical arm: the reference and a baseline
ranking    hits of both arms -> one list, the probability of a relevant hit, exact terms first; and the trace
calibration  the curve of relevance, fitted to collections without judged questions
recency    newer documents before older ones of equal fit
rerank     a cross-encoder reads the first passages with the question and sorts them
pack       hits -> a context within the budget, without copies and mirrors, with what was said before behind the rest;
           adjacent passages -> one passage
expand     packed context -> context shown: neighbours, whole documents, a whole collection
"""
