"""Document -> Chunks with exact spans.

chunk        the orchestrator
sections     a document's sections in reading order     blocks      text -> blocks that stay together
definitions  source code by definition                  table_chunks  tables by row
questions    questions with answers                     recursive   text cut by size alone
assemble     blocks -> chunks within the budget         boundaries  places to cut a text, and token counts
"""
