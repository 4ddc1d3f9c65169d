"""The changes of the tables of writes, in the order of the numbers; see `runtime.database`.

m0001_writes     writes, write_log, write_secret
m0002_language   the language in which a write was shown
"""
