"""Records of a build: keys, locks, manifests."""
