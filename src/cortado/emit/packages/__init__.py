"""A bundle packaged for a build system that firmware projects use: its manifest, an example, a README."""
