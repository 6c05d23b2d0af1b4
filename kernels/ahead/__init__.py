"""What is compiled ahead, for a wheel that carries it: which leaves and entries there are, and their machine code."""
