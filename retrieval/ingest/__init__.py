"""A document's path, in order.

pipeline      the orchestrator: what changed, what goes, each document committed by itself
removal       documents and collections taken away
load          files and folders -> candidates -> Document             exclude  files left out by name
formats/      bytes of each file format -> text and structure
chunking/     Document -> Chunks with exact spans
splitting     both of these, as one recipe and one embedder want them
sandbox       processes in which documents are read and split, within limits
prepare       the sandbox, and the vectors, made in a thread or in a child process
smoothing     a chunk's vector and those of its neighbours
reader        which files changed, which are gone, and what language they are in
given         documents that clients give, instead of files
background    jobs of such documents, written one after the other
context       what a model wrote of each chunk, kept by content
"""
