# The native half of a turn is only for the compiled rooms of this one: nothing is public.
