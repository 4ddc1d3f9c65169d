"""Stores of points: several engines, the same promises.

base           the protocol, and what it promises
schema         point schema, filters by rights and attributes, and code shared by both Qdrant stores
edge           embedded, on disk: the default
edge_shard     folder and configuration of the embedded engine
edge_optimise  builds the embedded engine's graphs, in a process of its own
qdrant         a Qdrant server or cluster
"""
