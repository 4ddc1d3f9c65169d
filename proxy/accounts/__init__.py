"""Keys, what they may do, and what they use.

rights   what a caller may do                      grants   what a new key is made with
keys     all valid keys, in memory                 sql      where they are kept
tables   the tables                                migrations/  how they came about
metered  where a request meets its key's limits    limits   counted in memory
ledger   what is used, told the accounts each second        shares  leases of limits, in SQL
usage    rows of what was used, and sums           prices   of tokens
"""
