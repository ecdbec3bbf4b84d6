"""Does the default policy ever lose? Every policy on a matrix of workers, service curves, loads and traffic."""
