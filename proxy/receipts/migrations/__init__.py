"""How the tables of receipts came about, in the order of their numbers; see `retrieval.database`.

m0001_receipts  receipts
"""
