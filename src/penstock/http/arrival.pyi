# Where a connection comes from is only for compiled code: nothing is visible to Python.
