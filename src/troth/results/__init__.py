"""What was paid and why: the result, explanations, findings, the HTML page and its pictures."""
