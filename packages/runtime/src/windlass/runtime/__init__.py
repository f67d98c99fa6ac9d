"""The runtime: opens stores, starts and resumes runs, and answers for them."""
