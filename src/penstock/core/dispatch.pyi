# The Python half of a turn is the base of Loop, which is public.
