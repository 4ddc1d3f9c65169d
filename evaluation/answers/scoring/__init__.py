"""Replies to scores, and scores to verdicts.

normalize       a text -> words and numbers in the form that scores compare
faults          replies -> failures
refusals        whether an answer refuses to answer
doubts          right answers that the rules cannot read
scores          an answer -> scores, by rules alone
scored_replies  replies and judgements -> the score of each question in each variant
groups          questions -> groups that count as one question
verdict         scores of two variants -> better, worse, no better, undecided, depends
costs           replies -> costs, and the extra cost of a variant
"""
