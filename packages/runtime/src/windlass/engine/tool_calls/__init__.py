"""Tool calls: judged, asked about, run, and their results as the model sees them."""
