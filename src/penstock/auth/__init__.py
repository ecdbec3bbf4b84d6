"""Who asks: API keys and tokens become an identity (SPEC D1)."""
