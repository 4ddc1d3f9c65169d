"""How the table of records came about; see `runtime.database`.

m0006_records  one table in place of a table for each kind, which m0001 to m0005 made
"""
