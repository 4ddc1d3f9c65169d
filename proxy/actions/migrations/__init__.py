"""The changes of the tables of actions, in the order of the numbers; see `runtime.database`.

m0001_actions   action_sets, actions
"""
