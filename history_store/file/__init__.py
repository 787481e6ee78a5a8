"""The files of a history: HDF5 and journal, their content, and the order of durable writes."""
