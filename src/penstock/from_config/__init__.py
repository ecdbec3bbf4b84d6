"""What core and runtime go by, as the configuration says it: tiers, limits, rules, costs and sharing."""
