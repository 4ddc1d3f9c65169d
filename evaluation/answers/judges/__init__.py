"""Answers judged by a model.

judge      what a model that judges is asked, and its reply, read strictly
judging    it is asked
judgements what it said, as the folder has it
agreement  how far it can be believed
"""
