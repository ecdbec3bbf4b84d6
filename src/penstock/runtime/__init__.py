"""The asyncio loops: they feed `core` with events and carry out what it says, through the ports."""
