# What each address has had is only for compiled code: nothing is visible to Python.
