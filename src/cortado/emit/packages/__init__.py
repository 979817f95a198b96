"""A bundle as a package of a build system that firmware projects use: its manifest, an example, a README."""
