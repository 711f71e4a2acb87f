"""Learn day types: how many there are, how often each occurs, and what each provider reports on each."""
