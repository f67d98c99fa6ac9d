"""The routes under /v1, by resource."""
