"""Tasks that show what networks with few heads learn, and Gaussian processes do not."""
