"""The owner of the data folder.

index          the interface `Knowledge`: opens all parts, audits, closes
library        collections, documents, jobs and files, from the catalog
writing        writes and deletes documents, jobs and files
syncing        makes collections equal to their declared sources
vector_spaces  each embedder in use, with its store, ingester and retriever; a search over all
data_folder    the folder's lock, and its stores
completeness   collections that lack points, for the operator
curves         fitted curves of relevance, in a file for each embedder
calibrating    fits them to the collections
pairing        whether catalog and index belong together
spool          a folder for uploads until the catalog has stored them
"""
