"""Writing: records become durable, without secrets, and are folded."""
