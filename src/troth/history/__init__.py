"""Learn a model from past days, and try the known lies on them before a cent is spent."""
