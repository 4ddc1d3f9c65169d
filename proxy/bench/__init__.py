"""`ragway bench`: the same questions to models raw and with passages, and what came of it.

questions  the user's file -> questions
matrix     models, modes, collections, settings -> variants -> what is sent
records    Question, Variant, Reply: the values that a run's folder holds
runs       the folder: begun, read, appended to
job        a run begun, or gone on with where it stopped
whole      a whole collection in the prompt, where it fits
estimate   what it will use, told before it starts
spending   the ceiling, and what counts towards it
running    the requests of a run, in random order
sending    requests, so many at once, tried again, each kept before the next step
asking     one of them, timed                          reading    its reply's bytes
receipts   what the gateway tells of the passages
terms      a text -> its words and numbers, in the form in which answers are compared
scores     an answer -> its scores, by rules alone
verdict    scores of two variants -> better, worse, no better, undecided
passages   a collection -> passages drawn from it       prompts    texts with places, and replies in JSON
drafts     a passage -> a question that a model drafts   drafting   as lines of the file that a person edits
judge      what a model that judges is asked, and its reply, read strictly
judging    it is asked                                 judgements what it said, as the folder has it
scored     replies and judgements -> scores of each question in each variant
costs      replies -> what they cost, and what a variant costs more than another
agreement  how far a judge can be believed
report     all of it -> one value                      diff       of two runs
view       a report -> what a reader sees              plots      its figures
pages      that -> report.html, report.md, report.json
live       comparisons of live chats -> what they show
live_judging  a judge is asked which of their answers is better      live_view  the tables
"""
