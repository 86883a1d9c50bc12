"""Times: compiled functions against NumPy, and with `--peers` against other compilers. `./dev bench` runs them."""
