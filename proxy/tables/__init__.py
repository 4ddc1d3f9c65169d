"""A team's databases: described, found by questions, and asked in SQL within a caller's rights. Knows no chat.

schema       records: what a database holds, where it is, what a caller may read
reading      a database or files -> records        files    files as tables of DuckDB
visible      what settings and rights leave visible of a database    views    which columns views read
cards        a table in words: for a model, and for the search
library      stored databases, and the tables for a question            stored   the SQL table of databases
values       values of a column that resemble what a person wrote
access       queries within a caller's rights                          hints    values that a query asked for in vain
guard        the first wall: SQL of a model to the SQL that is run     grammar  what SQL may be made of
executor     the third wall: queries in processes with limits          queries  records of a query
engines      the second wall: databases that refuse by themselves      error_texts  errors without values
migrations/
"""
