# One queue of requests is only for compiled code: nothing is visible to Python.
