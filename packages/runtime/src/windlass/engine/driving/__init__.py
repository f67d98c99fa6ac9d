"""Driving: sessions are claimed, driven while they have something to do, parked, and found by sweeps."""
