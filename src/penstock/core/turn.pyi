# The native half of a turn is only for the compiled rooms of the kernel: nothing is public.
