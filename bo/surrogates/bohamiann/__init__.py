"""BOHAMIANN: networks drawn from their posterior, for one task and for several."""
