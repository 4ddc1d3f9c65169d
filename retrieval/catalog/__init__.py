"""The catalog: collections, documents, texts and revisions, in SQL.

catalog       the catalog itself
tables        the tables                               migrations/  the history of the tables
revisions     the catalog's values                     changes      changes for other processes
documents     lists of documents, and full texts       files        files that clients uploaded
descriptions  attributes and groups of revisions       builds       unfinished generations of a collection
jobs          documents that wait to be written        writers      write locks of collections
replicas      changes of other index processes         audit        whether a store holds the catalog's points
"""
