"""The record of arrivals: a file that `penstock sim`, `bench`, `plan` and `tune` replay. `roles/recording.py`
makes it."""
