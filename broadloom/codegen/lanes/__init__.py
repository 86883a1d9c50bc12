"""Kernels of small matrices whose vectors hold the same element of several matrices: a lane is a matrix."""
