"""How often batches need which nodes: access probabilities, and what follows from them."""
