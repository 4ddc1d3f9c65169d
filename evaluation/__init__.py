"""Does retrieval help?

Measures retrieval and answers as a client of the gateway. The serving path never imports evaluation.

retrieval/   `ragway eval`: judged questions -> the quality of each search method
answers/     `ragway bench`: the same questions to models with and without passages
shadow/      `ragway bench live`: the results of shadow comparisons
stats/       intervals and significance
text_tables  tables as text and Markdown
"""
