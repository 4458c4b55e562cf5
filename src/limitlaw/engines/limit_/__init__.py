"""n → ∞: moments of wide vectors given the numbers, scores, and nodes for functions without closed forms."""
