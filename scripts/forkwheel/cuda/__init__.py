"""CUDA toolkits, kernels and caches."""
