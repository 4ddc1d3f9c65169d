"""Where points live: the same promises kept by several engines.

base     the protocol and its promises
schema   one point schema, and what the Qdrant stores do alike      conditions  what a query may find
edge     embedded, on disk: the default
shard    its folder and configuration  optimise  what makes it quick, in a process of its own
qdrant   a Qdrant server or cluster
okapi    another store with rank-bm25 as its lexical arm: the reference and a baseline
postings rank-bm25's scores, from the postings of a query's words alone
"""
