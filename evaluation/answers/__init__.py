"""`ragway bench`: the same questions to models raw and with passages, and what came of it.

questions  the user's file -> questions
records    Question, Variant, Reply: the values that a run's folder holds
runs       the folder: begun, read, appended to
prompts    texts with places, and replies in JSON
requests/  one request and its reply, many at once, the ceiling
run/       a run, from what is asked of whom to the last reply
scoring/   replies -> scores -> verdicts, and what they cost
judges/    answers judged by a model
drafted/   questions drafted by a model from a collection
reports/   a run, or two -> pages for a reader
"""
