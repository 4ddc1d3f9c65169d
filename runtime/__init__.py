"""Parts that every process of ragway needs. Imports no other package of ragway except `retrieval.errors`.

logs        log lines without texts of clients, models or documents
database    open and migrate SQLite or PostgreSQL          locks    locks in PostgreSQL, bound to a connection
scheduling  which process gets a busy core first           garbage  the garbage collector of a serving process
fair_slots  slots that several owners share, with a share and a queue for each
sandbox     processes that read documents, within limits of time and memory
"""
