"""The owner of the data folder.

index          the interface `Knowledge`: opens the parts, audits, closes
index_search   from a question to passages, over the vector spaces
library        collections, documents, jobs and files, from the catalog
writing        writes and deletes documents, jobs and files
vector_spaces  each embedder in use, with store, ingester and retriever
data_folder    the lock of the folder, and the stores in the folder
completeness   the collections that lack points, for the operator
pairing        whether catalog and index belong together
spool          a folder for uploads until the catalog has stored the uploads
"""
