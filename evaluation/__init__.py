"""Does it help? Measures retrieval and answers, as a client of the gateway; the serving path never imports it.

retrieval/  `ragway eval`: judged questions -> how well each way to search answers them
answers/    `ragway bench`: the same questions to models with and without passages
shadow/     `ragway bench live`: what shadow comparisons show
stats/      intervals and significance
"""
