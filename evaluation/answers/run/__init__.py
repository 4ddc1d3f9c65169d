"""A run: ask models the same questions raw and with passages.

collection_checks  do collections exist, and do documents contain the questions?
matrix             models, modes, collections, dialects, settings -> variants -> request bodies
whole_collection   a whole collection in the prompt, if it fits
estimate           a run's tokens and dollars, printed before it starts
runner             a run's requests, in random order
run_plan           a new run, or the rest of an interrupted one
"""
