"""The decision of a classifier as one more output of the harness, behind those of the model."""

DECISION_OUTPUT = "decision"


def output_source(name: str) -> str:
    """The C of the harness that gives it an output; a bundle with a decision has one more."""
    return f"""#ifdef {name.upper()}_NO_DECISION
static const void *output(const void *a, int i)
{{
    static int32_t decision;
    if (i < {name.upper()}_OUTPUTS) {{
        return {name}_output(a, i);
    }}
    decision = {name}_decision((void *)a);
    return &decision;
}}
#else
static const void *output(const void *a, int i) {{ return {name}_output(a, i); }}
#endif
"""
