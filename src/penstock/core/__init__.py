"""The kernel: files, time, queues and budgets. It knows no programming model and no protocol."""
