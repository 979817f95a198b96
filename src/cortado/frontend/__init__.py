"""From nn.Module to a quantized float graph: models, export, other spellings, the quantizer, the zoo."""
