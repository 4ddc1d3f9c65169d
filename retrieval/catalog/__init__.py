"""The catalog: collections, documents, texts and revisions, in SQL.

catalog          the catalog itself
catalog_tables   its tables                               migrations/  how they came about
revisions        the catalog's values                     changes      changes for other processes
document_reader  lists of documents, and full texts       file_store   files that clients uploaded
descriptions     attributes and groups of revisions       builds       unfinished generations of a collection
job_store        documents that wait to be written        writers      write locks of collections
source_states    what is remembered of declared sources
replicas         changes of other index processes         audit        whether a store holds the catalog's points
"""
