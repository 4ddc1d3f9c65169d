"""The changes of the tables of actions, in the order of the numbers; see `runtime.database`.

m0001_actions   action_sets, actions
m0002_sources   the source and the hash of a set's document
"""
