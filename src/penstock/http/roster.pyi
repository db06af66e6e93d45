# The lists of connections are only for compiled code: nothing is visible to Python.
