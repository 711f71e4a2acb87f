"""Benchmarks of speed, as ratios within one run, and of incentives: `make bench`."""
