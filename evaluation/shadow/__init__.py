"""Results of shadow comparisons: `ragway bench live`.

summary      comparisons -> lift, harm, extra cost and latency, by group
preferences  a judge says which of two answers is better
text         a summary -> tables; one comparison -> a page of text
"""
