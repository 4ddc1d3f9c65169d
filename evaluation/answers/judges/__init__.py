"""A model judges answers.

judge_tasks      the questions for a judge, and the strict reading of a judge's reply
judge_runner     send the questions to the judge
judgement_files  the judgements in a run's folder
agreement        how reliable the judge is
"""
