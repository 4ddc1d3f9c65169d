"""`ragway bench`: ask models the same questions raw and with passages, and compare their answers.

question_file  a user's file -> questions
thoughts       an answer -> the same without the model's thoughts
records        Question, Variant, Reply: values in a run's folder
run_folder     creates, reads and extends that folder
prompts        prompt files with placeholders; JSON replies
client/        one request and its reply, many at once, the budget
run/           a run, from plan to last reply
scoring/       replies -> scores -> verdicts and costs
judges/        a model judges answers
drafted/       a model drafts questions from a collection
reports/       one or two runs -> pages for a reader
"""
