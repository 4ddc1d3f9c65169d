"""The catalog: collections, documents, their text and their revisions, in SQL.

catalog       the catalog itself                    tables      its tables        migrations/  how the tables came about
revisions     its values                            changes     what other processes must hear of
documents     lists of documents, and whole texts   files       files that clients uploaded
descriptions  attributes and groups of revisions    builds      generations of a collection in the making
jobs          documents that wait to be written     writers     who may write to a collection
"""
