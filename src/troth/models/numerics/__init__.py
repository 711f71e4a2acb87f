"""What several families share: stable differences, extremes, collision probabilities, predictive sums."""
