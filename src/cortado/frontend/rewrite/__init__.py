"""Rewriting of the float graph: other spellings, in-place writes, state, masks, integers, filters."""
