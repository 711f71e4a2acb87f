"""Speed as ratios measured in one run, and the incentives that each rule gives: `make bench`."""
