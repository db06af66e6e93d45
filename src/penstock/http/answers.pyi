# Nothing here is for Python: see files.pyi.
