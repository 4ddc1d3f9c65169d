"""A document's path, in order.

pipeline   the orchestrator: what changed, what goes, each document committed by itself
removal    documents and collections taken away
load       files and folders -> candidates -> Document (decode: bytes -> text; webpage, tagsoup: HTML -> Markdown)
chunk      Document -> Chunks with exact spans (sections, blocks, markdown, rst: its structure; definitions: of code;
           tables: by rows; questions: with their answers; parameters: apart from what they are of; fill: blocks ->
           chunks within the budget; seams: where a block that is too long is cut; recursive: by size alone)
prepare    both of these and the vectors, in a thread or in a child process
smoothing  a chunk's vector and those of its neighbours
reader     which files changed, which are gone, and what language they are in
given      documents that clients give, instead of files
background jobs of such documents, written one after the other
context    what a model wrote of each chunk, kept by content
"""
