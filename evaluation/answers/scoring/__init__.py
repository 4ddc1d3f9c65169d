"""From replies to scores, and from scores to verdicts.

normalize       a text -> words and numbers, in a form that scores compare
faults          replies -> failures
refusals        whether an answer refuses to answer
doubts          right answers that rules cannot read
scores          an answer -> scores, by rules alone
scored_replies  replies and judgements -> each question's score in each variant
groups          questions -> groups that count as one question
verdict         scores of two variants -> better, worse, no better, undecided, depends
costs           replies -> costs, and a variant's extra cost
"""
