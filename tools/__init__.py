"""What helps to develop Penstock, and is no part of it."""
