"""Questions that a model drafts from a collection, for a person to edit.

passages    a collection -> a sample of passages
drafts      a passage -> a drafted question
draft_file  drafted questions -> lines in a file that a person edits
"""
