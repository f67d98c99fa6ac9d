"""Recording into the journal of a runtime that drives agents."""
