"""A model judges answers.

judge_tasks      questions for a judge, and a strict reading of its replies
judge_runner     sends those questions to the judge
judgement_files  judgements in a run's folder
agreement        how reliable the judge is
"""
