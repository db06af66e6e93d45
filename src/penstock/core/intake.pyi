# How work enters is the base of Loop, which is public.
