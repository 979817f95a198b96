"""Which element each tensor has: by request, by measurement against a target, in islands of float32."""
