"""One register block: what it multiplies, from where it reads, packing, and the numbers of its loops."""
