"""What helps to develop Penstock, and is no part of it: nothing in `src/` imports it, and the wheel does not hold
it."""
