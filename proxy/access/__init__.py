"""Access: who may do what, within which limits, and how much each caller used.

auth       the caller's key; without keys, only programs on this machine and no web page
keys       all valid keys, in memory                  grants     the properties of a new key
sql        stored keys                                tables     the tables
key_credentials  of keys, for APIs of actions
key_apis   the APIs with the credentials of each key
call_counts  calls of operations with a limit an hour
migrations/  the changes of the tables
metering   the middleware of the limits               limits     the counters, in memory
ledger     synchronises limits and usage each second  shares     leases of limits, in SQL
usage      rows of usage, and sums                    prices     of tokens
usage_tap  counts a reply's tokens as the reply passes
"""
