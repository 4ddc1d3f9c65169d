"""What every process of ragway needs; imports no other package of ragway but `retrieval.errors`.

logs        log lines, without what clients, models or documents said
database    SQLite or PostgreSQL: opened, brought up to date     locks  locks in PostgreSQL, held by a connection
scheduling  which process has a core where several want it       garbage  the garbage collector of a serving process
"""
