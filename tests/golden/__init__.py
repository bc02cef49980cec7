"""Keeps today's behavior in files, so that a change of it cannot go unseen: see README.md in this folder."""
