# Everything in target.py is for C.
