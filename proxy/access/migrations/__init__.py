"""How the accounts' tables came about, in the order of their numbers; see `runtime.database`.

m0001_keys    keys: as they were before there were migrations
m0002_usage   usage, spent, leases: what requests took, and shares of limits
"""
