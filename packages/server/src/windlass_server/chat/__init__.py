"""Chat protocols of other projects: AG-UI and the AI SDK."""
