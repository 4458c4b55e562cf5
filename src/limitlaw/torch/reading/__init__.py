"""What a module is, read off its exported graph: matrices by role, blocks, attention, norms."""
