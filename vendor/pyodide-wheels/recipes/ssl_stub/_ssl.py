"""A stand-in for `_ssl` on Pyodide 0.29 (see ssl.py): truststore wants it."""

ENCODING_PEM, ENCODING_DER = 1, 2
