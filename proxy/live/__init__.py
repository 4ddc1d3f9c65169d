"""Live comparisons: a chat is answered as usual, and once that is over its model is asked raw as well, off the path.

comparing   which chats, how many at once, within which budget; and the raw request
reply       a reply's bytes as they pass -> what it was
comparison  both answers, and the JSON that is kept of them
"""
