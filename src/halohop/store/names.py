"""How the files of a data set are called that hosts look for before they read any. Imports nothing, torch least of all."""

MANIFEST = "manifest.json"
"""What is in the data set, and a checksum for each file; it is written last."""
