"""The history as a file: what HDF5 and the journal hold, how both are written so that nothing acknowledged is lost."""
