"""Does retrieval help?

Measures retrieval and answers, as a client of the gateway. The serving path never imports it.

retrieval/   `ragway eval`: judged questions -> how good each search method is
answers/     `ragway bench`: the same questions to models, with and without passages
shadow/      `ragway bench live`: results of shadow comparisons
stats/       intervals and significance
text_tables  tables as text and Markdown
"""
