"""Penstock over Redis or Valkey: the bus between gateways, batchers and workers."""
