"""What wide networks learn: kernels for Gaussian processes, predictions, and training."""
