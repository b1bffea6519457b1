"""Tests of the package: PYTHONPATH=python PHALANX_LIBRARY=... python3 -m unittest python/tests."""
