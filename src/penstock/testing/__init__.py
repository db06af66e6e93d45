"""What programs and this project's own tests need to be sure: native handlers to measure and to break things with."""
