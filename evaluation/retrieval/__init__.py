"""Judged questions asked of the index as a chat asks it, and what came of it, rung by rung.

judged        a BEIR-form folder -> documents and questions with their gold; what is wrong with it, by file and line
ladder        the search settings -> rungs: the same settings with less switched on
measure       the orchestrator: folder -> index -> every rung asked every question -> outcomes
metrics       a ranking and its gold -> nDCG, recall, precision, MRR, MAP
results       outcomes -> a set's result with its rungs; as JSON, and read back
compare       two runs, or two embedders, question by question
tables        results -> tables of plain text or Markdown
"""
