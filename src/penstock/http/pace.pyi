# How fast requests are worked off is only for compiled code: nothing is visible to Python.
