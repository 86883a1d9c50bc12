"""Products of matrices: kernels of our own, in blocks of registers and of the caches."""
