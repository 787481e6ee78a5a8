"""`warmstart serve`: suggestions and studies over HTTP; it runs no user's code and stores no picture."""
