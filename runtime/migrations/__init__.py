"""How the record table came about; see `runtime.database`.

m0006_records  one table in place of those for each kind that m0001 to m0005 made
"""
