"""The commands of `ragway keys`.

keys         create, list, limit, revoke and rotate keys
credentials  a key's secrets and fixed arguments for action sets
"""
