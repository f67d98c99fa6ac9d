"""Programs that build the repository; not part of any distribution."""
