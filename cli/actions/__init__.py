"""The commands of `ragway actions`.

actions   sets from documents: added, found, called      specs  documents that are read again
writes    `log`, `pending`, `receipt` and `verify`: the calls that change something
"""
