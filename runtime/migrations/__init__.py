"""How the table of records came about, in the order of the numbers; see `runtime.database`.

m0001_receipts, m0002_comparisons, m0003_histories, m0004_action_rounds, m0005_action_results  a table for each kind
m0006_records  one table, with the rows of all
"""
