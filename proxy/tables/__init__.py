"""A team's databases: described, found by questions, and asked in SQL within a caller's rights. Knows no chat.

schema       records: what a database holds, where it is, what a caller may read
files        files as tables of DuckDB
guard        the first wall: SQL of a model to the SQL that is run     grammar  what SQL may be made of
executor     the third wall: queries in processes with limits          queries  records of a query
engines      the second wall: databases that refuse by themselves      error_texts  errors without values
"""
