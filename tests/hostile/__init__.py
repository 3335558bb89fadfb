"""The catalogue of hostile inputs against the real binary."""
