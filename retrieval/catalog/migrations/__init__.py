"""The history of the catalog's tables, by number; see `runtime.database`.

m0001_tables          collections, documents, revisions, languages, builds: the tables before the first migration
m0002_descriptions    attributes and audiences: of documents, by revision
m0003_jobs            files, jobs and tasks: uploads waiting for collections
m0004_changes         changes: changes for other processes
m0005_states          an index that finds the current revision of a document
"""
