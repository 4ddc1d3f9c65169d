"""`ragway bench`: ask models the same questions raw and with passages, and compare the answers.

question_file  the user's file -> questions
thoughts       an answer -> the answer without the model's thoughts
records        Question, Variant, Reply: the values of a run's folder
run_folder     create, read and extend the folder
prompts        prompt files with placeholders; JSON replies
client/        one request and its reply, many requests at once, the budget
run/           a run, from the plan to the last reply
scoring/       replies -> scores -> verdicts and costs
judges/        a model judges the answers
drafted/       a model drafts questions from a collection
reports/       one or two runs -> pages for a reader
"""
