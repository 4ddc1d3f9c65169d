"""`ragway bench`: the same questions to models raw and with passages, and what came of it.

terms      a text -> its words and numbers, in the form in which answers are compared
scores     an answer -> its scores, by rules alone
verdict    scores of two variants -> better, worse, no better, undecided
costs      replies -> what they cost, and what a variant costs more than another
"""
