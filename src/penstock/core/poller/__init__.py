"""Readiness sources: which descriptors can go on? One interface, one file per source."""
