"""A run: the same questions to models raw and with passages.

searched the collections: are they there, and do they hold the questions
matrix   models, modes, collections, settings -> variants -> what is sent
whole    a whole collection in the prompt, where it fits
estimate what it will use, told before it starts
running  the requests of a run, in random order
job      a run begun, or gone on with where it stopped
"""
