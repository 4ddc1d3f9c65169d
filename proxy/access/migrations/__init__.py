"""The changes of the accounts' tables, in the order of the numbers; see `runtime.database`.

m0001_keys    keys: the table from before the first migration
m0002_usage   usage, spent, leases: the usage of requests, and shares of limits
m0003_credentials   credentials: the sealed credentials of keys
m0004_calls   usage: calls of APIs, and those that change something
"""
