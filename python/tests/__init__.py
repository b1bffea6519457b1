"""Tests of the package. In the repository, once the library and the program are built:

PYTHONPATH=python PHALANX_LIBRARY=build/release/libphalanx.so \\
    python3 -m unittest discover -s python/tests -t python
"""
