"""NmfSync: synchronisation by non-negative factorisation (Bernard et al. 2019)."""
