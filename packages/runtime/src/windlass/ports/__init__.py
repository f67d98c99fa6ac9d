"""What the runtime asks of the world: small Protocols, and the data that crosses them."""
