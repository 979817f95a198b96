"""What a compiled model is worth: scores on datasets, places side by side, what int8 keeps."""
