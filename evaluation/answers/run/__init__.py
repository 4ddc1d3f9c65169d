"""A run: ask models the same questions raw and with passages.

collection_checks  do the collections exist, and do the documents contain the questions?
matrix             models, modes, collections, dialects, settings -> variants -> request bodies
whole_collection   a whole collection in the prompt, if the collection fits
estimate           the tokens and dollars of a run, printed before the start
runner             the requests of a run, in random order
run_plan           a new run, or the rest of an interrupted run
"""
