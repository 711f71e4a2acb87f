"""The service: campaigns with people in them, in a browser and over HTTP."""
