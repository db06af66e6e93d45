# Nothing here is for Python: threads share a loop through `penstock.core.sharedloop`.
