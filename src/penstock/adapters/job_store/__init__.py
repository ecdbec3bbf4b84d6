"""Keeps the files and jobs of `runtime/jobs`: on a disk."""
