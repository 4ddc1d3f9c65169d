"""The changes of the table of databases, in the order of the numbers; see `runtime.database`.

m0001_databases   table_databases
"""
