"""Client of the HTTP server: `reverie.client` has its public names."""
