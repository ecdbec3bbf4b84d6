"""Who asks: API keys and tokens become an identity."""
