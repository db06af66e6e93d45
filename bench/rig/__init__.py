"""What every measurement shares: the description of a measurement, processes, native programs and the table."""
