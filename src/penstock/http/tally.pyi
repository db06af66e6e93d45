# What an engine counts is told by the engine: nothing is visible to Python.
