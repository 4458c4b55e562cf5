"""Pages with claims and figures, and what figures are in them; no number is computed here."""
