"""How the files in the folder of a run are called. Imports nothing, so that launchers know them, too."""

METRICS = "metrics.jsonl"
"""The events, a line of JSON each."""
STATE = "resume.pt"
"""Where the run stands, for `--resume`."""
CHECKPOINT = "checkpoint"
"""The folder of the best model."""
