"""Pages with claims and figures, and the figures in them; no number is computed here."""
