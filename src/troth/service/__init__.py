"""The service: campaigns with accounts, invitations and deadlines, in a browser and over HTTP."""
