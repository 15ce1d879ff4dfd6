"""Two-layer network after one gradient step of its first layer and a ridge fit of its second."""
