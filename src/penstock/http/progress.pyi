"""Compiled for other compiled modules; nothing in it is for Python."""
