"""The history of the catalog's tables, by number; see `runtime.database`.

m0005_tables   the tables, which m0001 to m0005 made
"""
