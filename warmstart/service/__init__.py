"""`warmstart serve`: suggestions and studies over HTTP; nothing here runs a user's code or keeps a picture."""
