"""The commands, a module for each family."""
