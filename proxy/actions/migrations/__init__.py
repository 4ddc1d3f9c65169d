"""How the tables of actions came about, in the order of their numbers; see `runtime.database`.

m0001_actions   action_sets, actions
"""
