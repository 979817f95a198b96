"""Names that mean something to C, CMake, HTML, Markdown or a shell."""

HOSTILE = (
    "*/ int evil; /*",
    '"; int evil; //',
    "the end \\",
    "one\nint evil;\n",
    "one\r\nint evil;\n",
    "??/\nint evil;",
    "*??/\n/ int evil;",
    "\u00fcn\u00ef\u2028int evil;",
    "%s%n evil",
    "${evil} $ENV{evil} @evil@",
    "`evil` | evil |",
    "</td><script>evil()</script>",
    "\x1b[2Jevil\x00",
)
