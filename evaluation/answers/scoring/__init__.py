"""Replies to scores, and scores to verdicts.

terms    a text -> its words and numbers, in the form in which answers are compared
faults   replies -> what went wrong with them
scores   an answer -> its scores, by rules alone
scored   replies and judgements -> scores of each question in each variant
groups   questions -> which of them are one question
verdict  scores of two variants -> better, worse, no better, undecided, depends
costs    replies -> what they cost, and what a variant costs more than another
"""
