"""Runs as chat clients of others see them: pure folds, events in and frames out."""
