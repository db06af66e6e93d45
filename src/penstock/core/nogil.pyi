# What native handlers may call is only for compiled code: nothing is visible to Python.
