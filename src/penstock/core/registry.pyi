# The table of registrations is only for the compiled rooms of the kernel: nothing is public.
