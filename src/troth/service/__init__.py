"""The web service: campaigns, invitations, submissions, rounds and payments behind a URL."""
