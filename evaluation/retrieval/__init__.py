"""Ask an index judged questions as a chat would, and measure each rung of the ladder.

judged        a BEIR folder -> documents and questions with gold; errors name the file and line
ladder        the search settings -> rungs: each rung switches one more part of the search on
measure       the orchestrator: folder -> index -> every question on every rung -> results
subjects      the search under test: of documents       operations  of operations of APIs
metrics       a ranking and gold -> nDCG, recall, precision, MRR, MAP
results       the results of a set, by rung; to JSON and back
compare       two runs or two embedders, question by question
tables        results -> tables as plain text or Markdown
"""
