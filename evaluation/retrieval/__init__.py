"""Asks an index judged questions as a chat would, and measures each rung of the ladder.

judged        a BEIR folder -> documents and questions with gold; errors name file and line
ladder        search settings -> rungs: each one switches on one more part of the search
measure       orchestrates: folder -> index -> every question on every rung -> results
subjects      what is searched: documents       operations  API operations
metrics       a ranking and gold -> nDCG, recall, precision, MRR, MAP
results       a set's results, by rung; to JSON and back
compare       two runs or two embedders, question by question
tables        results -> tables as plain text or Markdown
"""
