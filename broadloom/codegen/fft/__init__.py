"""Fourier transforms as kernels of their own: a plan of small passes for each size, emitted as vector code.

`plan` decides the passes and makes their tables, `butterflies` are the small transforms in registers, `passes` the
loops around them, `rows` what moves rows in and out, `step` the kernel of one step of a program.
"""
