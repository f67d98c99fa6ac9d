"""Model calls: answers to runs, and summaries of histories."""
