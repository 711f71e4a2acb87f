"""What the site writes from the code: names, commands, the bridge to the paper, the gallery."""
