"""A question's path, in order.

pipeline   the orchestrator: calls the rest from top to bottom
rewrite    conversation -> a query that stands alone
split      several questions in one message: asked apart, found together
relevance  what a score means, and the probability that something relevant was found
fuse       both arms' hits -> one list
literal    what the question says literally: passages that hold it before those that do not
recency    newer documents before older ones that fit as well
rerank     the first passages read together with the question by a cross-encoder
diversity  what adds something before what says the same again
pack       hits -> the context that fits the budget
neighbours passages that follow one another -> one passage
texts      pieces of the documents' stored texts
explain    what became of every candidate, and why, for whoever asks
expand     the packed context -> the one shown: neighbours, whole documents, a whole collection
"""
