"""First campaigns: for your data, from an example, or the demonstration."""
