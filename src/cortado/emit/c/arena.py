"""The arena in the functions of a bundle: one pointer, or a structure with a pointer per memory."""

from cortado.base.names import c_identifier
from cortado.base.target import ALIGNED_ONLY
from cortado.emit.c.tables import at
from cortado.emit.c.text import bad_arena, comment
from cortado.plan.planned import GUARD_BYTES, Planned, RegionPlan
from cortado.plan.program import Program
from cortado.plan.segments import ALIGNMENT


def arena_parameter(planned: Planned, const: str = "") -> str:
    """Returns the first parameter of the functions of MODEL.h; `const` is for those that only read the arena."""
    return f"{'const ' if planned.regions else const}{_type(planned.program)} *arena"


def _type(program: Program) -> str:
    return f"{c_identifier(program.owner)}_arena_t"


def _upper(planned: Planned) -> str:
    return c_identifier(planned.program.owner).upper()


def used_regions(planned: Planned) -> list[RegionPlan]:
    """Returns the regions that hold a buffer; the pointer of any other may be NULL."""
    return [region for region in planned.regions if region.bytes or region.checked_bytes]


def region_macro(planned: Planned, region: RegionPlan) -> str:
    return f"{_upper(planned)}_ARENA_{region.name.upper()}_BYTES"


def wrong_arena(planned: Planned) -> str:
    """Returns the C condition that is true of an arena that no function can work in."""
    return "wrong(arena)" if planned.regions else bad_arena(_upper(planned))


def wrong_function(planned: Planned) -> str:
    """Defines the C function that `wrong_arena` calls; empty for an arena in one piece."""
    if not planned.regions:
        return ""
    tests = [
        f"arena->{one.name} == NULL || (uintptr_t)arena->{one.name} % {_upper(planned)}_ARENA_ALIGN != 0"
        for one in used_regions(planned)
    ]
    condition = "\n        || ".join(["arena == NULL", *tests])
    return f"""static int wrong({arena_parameter(planned)})
{{
    return {condition};
}}

"""


def place(planned: Planned, buffer: str, kind: str) -> str:
    """Returns the address of a buffer's first byte as a pointer to `kind`; the arena must be valid."""
    if not planned.regions:
        return f"({kind} *)arena + {at(planned, buffer)}"
    region = planned.region_of(buffer)
    return f"({kind} *)arena->{region.name} + AT({local(planned, buffer)}u, {local(planned, buffer, GUARD_BYTES)}u)"


def local(planned: Planned, buffer: str, guard: int = 0) -> int:
    """Returns a buffer's offset in its own region, or in an arena in one piece; in the checks build, with a guard."""
    offsets = planned.checked.offsets if guard else planned.plan.offsets
    start = 0
    if planned.regions:
        region = planned.region_of(buffer)
        start = region.checked_start if guard else region.start
    return offsets[buffer] + guard - start


def region_table(planned: Planned) -> str:
    """Declares the arena's regions for the row loop; empty for an arena in one piece."""
    if not planned.regions:
        return ""
    used = used_regions(planned)
    rows = []
    for number, one in enumerate(used):
        last = number == len(used) - 1
        end = "UINT32_MAX" if last else f"AT({one.start + one.bytes}u, {one.checked_start + one.checked_bytes}u)"
        rows.append(f"        {{{end}, (uintptr_t)arena->{one.name} - AT({one.start}u, {one.checked_start}u)}},")
    table = "\n".join(rows)
    return f"""    const cortado_region_t regions[] = {{
{table}
    }};
"""


def aligned_guard(planned: Planned) -> str:
    """Emits an #error for builds that allow unaligned accesses although one of the arena's memories faults on them."""
    if not planned.aligned_only:
        return ""
    names = " and ".join(planned.aligned_only)
    flags = " ".join(ALIGNED_ONLY)
    return f"""#if defined(__ARM_FEATURE_UNALIGNED)
#error "unaligned accesses fault in device memory ({names}): compile all sources of the bundle with {flags}"
#endif
"""


def arena_facts(planned: Planned) -> str:
    """Defines the macros of MODEL.h for the arena's sizes and alignment."""
    upper, regions = _upper(planned), planned.regions
    release = [f"#define {region_macro(planned, one)} {one.bytes}" for one in regions]
    checked = [f"#define {region_macro(planned, one)} {one.checked_bytes}" for one in regions]
    release.append(f"#define {upper}_ARENA_BYTES {max(planned.plan.peak, 1)}")
    checked.append(f"#define {upper}_ARENA_BYTES {max(planned.checked.peak, 1)}")
    text = "\n".join(["#ifdef CORTADO_ENABLE_RUNTIME_CHECKS", *checked, "#else", *release, "#endif"])
    return f"""{text}
#ifdef CORTADO_CACHE_LINE /* bytes: the arena occupies whole lines of the data cache, shared with no other variable */
#if CORTADO_CACHE_LINE % {ALIGNMENT} != 0
#error "CORTADO_CACHE_LINE is the length of a line of the data cache: 32 on most cores, a multiple of {ALIGNMENT}"
#endif
#define {upper}_ARENA_ALIGN CORTADO_CACHE_LINE
#else
#define {upper}_ARENA_ALIGN {ALIGNMENT}
#endif"""


def arena_structure(planned: Planned) -> str:
    """Defines the arena's type: its bytes if it is in one piece, else a structure with a pointer per memory."""
    if not planned.regions:
        about = comment(
            "The arena: a variable of this type has the right size and alignment. The compiler rejects a pointer to "
            f"anything else (some only warn: -Wincompatible-pointer-types); {_type_function(planned)} accepts other "
            "memory."
        )
        return f"{about}\n{_union(planned, _type(planned.program), f'{_upper(planned)}_ARENA_BYTES')}\n"
    used = used_regions(planned)
    pieces = [_union(planned, piece_type(planned, one), region_macro(planned, one)) for one in used]
    members = "\n".join(
        f"    {piece_type(planned, one) if one in used else 'void'} *{one.name};" for one in planned.regions
    )
    about = comment(
        "The arena is split over several memories: a pointer to a piece of each, aligned to "
        f"{_upper(planned)}_ARENA_ALIGN bytes; one of 0 bytes may be NULL. {_upper(planned)}_ARENA_BYTES is the sum."
    )
    return f"""{about}
{"".join(pieces)}typedef struct {{
{members}
}} {_type(planned.program)};

"""


def _union(planned: Planned, name: str, size: str) -> str:
    return f"""typedef union {{
    uint8_t bytes[{size}];
    uint64_t align;
}} __attribute__((aligned({_upper(planned)}_ARENA_ALIGN))) {name};
"""


def piece_type(planned: Planned, region: RegionPlan) -> str:
    return f"{c_identifier(planned.program.name)}_arena_{region.name}_t"


def _type_function(planned: Planned) -> str:
    return f"{c_identifier(planned.program.name)}_arena"


def arena_function(planned: Planned) -> str:
    """Declares the function that takes any memory as an arena; empty for an arena in several memories."""
    if planned.regions:
        return ""
    upper = _upper(planned)
    about = comment(
        "Uses other memory as an arena. Returns NULL, which every function rejects, unless the memory has at least "
        f"{upper}_ARENA_BYTES bytes and is aligned to {upper}_ARENA_ALIGN."
    )
    return f"{about}\n{_head(planned)};\n\n"


def _head(planned: Planned) -> str:
    return f"{_type(planned.program)} *{_type_function(planned)}(void *memory, size_t bytes)"


def arena_function_text(planned: Planned) -> str:
    """The definition of the function that `arena_function` declares."""
    if planned.regions:
        return ""
    upper, kind = _upper(planned), _type(planned.program)
    return f"""{_head(planned)}
{{
#ifdef CORTADO_CACHE_LINE
    const size_t needed = sizeof({kind}); /* whole lines */
#else
    const size_t needed = {upper}_ARENA_BYTES;
#endif
    if (bytes < needed || (uintptr_t)memory % {upper}_ARENA_ALIGN != 0) {{
        return NULL;
    }}
    return ({kind} *)memory;
}}

"""


def default_arena_type(planned: Planned) -> str:
    return f"{'const ' if planned.regions else ''}{_type(planned.program)} *"


def default_arena(planned: Planned) -> str:
    """Defines MODEL_default_arena."""
    name = c_identifier(planned.program.name)
    head = f"{default_arena_type(planned)}{name}_default_arena(void)\n{{\n"
    if not planned.regions:
        return f"{head}    static {_type(planned.program)} arena CORTADO_ARENA;\n    return &arena;\n}}\n"
    used = used_regions(planned)
    pieces = [f"    static {piece_type(planned, one)} {one.name} CORTADO_ARENA_{one.name.upper()};\n" for one in used]
    members = ", ".join(f"&{one.name}" if one in used else "NULL" for one in planned.regions)
    table = f"    static const {_type(planned.program)} arena = {{{members}}};\n"
    return f"{head}{''.join(pieces)}{table}    return &arena;\n}}\n"


def placing_macros(planned: Planned, sections: tuple[str, ...]) -> str:
    """Defines the macros that place the default arena's pieces and some layers' weights, for MODEL_data.h."""
    names = [(f"CORTADO_ARENA_{one.name.upper()}", f".bss.cortado_{one.name}") for one in used_regions(planned)]
    names += [(f"CORTADO_WEIGHTS_{section.upper()}", f".cortado.{section}") for section in sections]
    return "".join(
        f'#ifndef {macro}\n#define {macro} __attribute__((section("{section}")))\n#endif\n' for macro, section in names
    )
