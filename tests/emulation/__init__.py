"""The CUDA kernels of this project, built by the host compiler and run under the sanitizers."""
