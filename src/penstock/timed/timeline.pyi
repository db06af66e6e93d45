# Only C functions: nothing for Python.
