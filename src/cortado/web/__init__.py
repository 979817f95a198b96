"""A compiled model in a browser: its portable C as WebAssembly, a module of JavaScript, and a page to try it."""
