"""What happened, counted: plain integers on the hot path, the exposition format made when scraped."""
