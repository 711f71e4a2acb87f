"""How families learn from past days: by default the prior that makes them likeliest, else as a family says itself."""
