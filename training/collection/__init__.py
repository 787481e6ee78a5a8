"""Collection: which cells of a history are measured, in which order, and by which process."""
