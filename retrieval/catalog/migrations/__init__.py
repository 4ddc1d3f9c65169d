"""How the catalog's tables came about, in the order of their numbers; see `runtime.database`.

m0001_tables    collections, documents, revisions, languages, builds: as they were before there were migrations
m0002_descriptions    attributes and audiences: of documents, by revision
m0003_jobs      files, jobs and tasks: what clients uploaded, on its way into collections
m0004_changes   changes: what other processes must hear of
"""
