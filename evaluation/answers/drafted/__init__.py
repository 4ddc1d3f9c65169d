"""Questions drafted by a model from a collection, for a person to edit.

passages  a collection -> passages drawn from it
drafts    a passage -> a question that a model drafts
drafting  as lines of the file that a person edits
"""
