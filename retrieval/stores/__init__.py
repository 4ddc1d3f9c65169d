"""The stores of points: several engines with the same promises.

base           the protocol and its promises
schema         the point schema, filters by rights and attributes, and code shared by the Qdrant stores
edge           embedded, on disk: the default
edge_shard     the folder and configuration of the embedded engine
edge_optimise  builds the graphs of the embedded engine, in a process of its own
qdrant         a Qdrant server or cluster
"""
