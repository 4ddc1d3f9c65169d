"""What live comparisons show: `ragway bench live`.

summary  comparisons -> lift, harm, added cost and latency, by group
judging  a judge is asked which of two answers is better
view     a summary -> tables; one comparison -> a page of text
"""
