"""Document -> Chunks with exact spans.

chunk        the orchestrator
sections     a document's sections in reading order     blocks      text -> blocks that stay together
definitions  source code by definition                  tables      tables by row
questions    questions with their answers               parameters  what an operation takes, apart from what it does
assemble     blocks -> chunks within the budget         boundaries  where a text may be cut, and token counts
recursive    text cut by size alone
"""
