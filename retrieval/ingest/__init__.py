"""A document's path, in order.

pipeline   the orchestrator: what changed, what goes, each document committed by itself
load       files and folders -> candidates -> Document (decode: bytes -> text; webpage, tagsoup: HTML -> Markdown)
chunk      Document -> Chunks with exact spans (sections, blocks, markdown, rst: its structure; fill: blocks ->
           chunks within the budget; seams: where a block that is too long is cut)
prepare    both of these and the vectors, in a thread or in a child process
"""
