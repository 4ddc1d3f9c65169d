"""Who may do what, within which limits, and what they used.

auth       a valid key; without keys, only programs on this machine and no web page
rights     what a caller may do                       permitted  searches within what the caller may read
keys       all valid keys, in memory                  grants     what a new key is made with
sql        where keys are kept                        tables     the tables
migrations/  how the tables came about
metering   the middleware of the limits               limits     counted in memory
ledger     reports usage to the accounts each second  shares     leases of limits, in SQL
usage      rows of what was used, and sums            prices     of tokens
usage_tap  counts a reply's tokens as the reply passes
admin      keys and usage over HTTP
"""
