"""Measurements, as ratios inside one run."""
