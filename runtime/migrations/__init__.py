"""How the tables of receipts came about, in the order of their numbers; see `runtime.database`.

m0001_receipts     receipts
m0002_comparisons  comparisons: answers raw and with passages
m0003_histories    histories of stored conversations
m0004_action_rounds  action_rounds: the hidden messages of conversations with calls of APIs
m0005_action_results  action_results: the whole results of calls whose results were cut
"""
