"""The rows of a stream at which outputs come, and the window of rows that each is for.

The model is written for a window of W rows. Rows at the end of a window that its output does not read (left over by
strides, or by a spectrum whose window is shorter than its FFT) are not waited for: output n comes with row n * hop +
first - 1 and is for rows n * hop to n * hop + window - 1, the last window - first of which nothing reads. Pushing a
whole window can therefore give several outputs: the first is for this window, the others are for windows that are not
complete yet. To compare with a single window, push only its first `first` rows.
"""

from dataclasses import dataclass

from cortado.base.arrays import ArrayType


@dataclass(frozen=True)
class WindowRows:
    """Rows `start` to `stop` - 1 of a step in a stream are those of the window's tensor from row `at` on."""

    start: int
    stop: int
    at: int


@dataclass(frozen=True)
class StreamWindows:
    """Windows of a stream, in rows, counted from 0 at MODEL_reset."""

    window: int  # rows of the window that an output is for
    hop: int  # rows from one output to the next
    first: int  # rows up to the first output: the rows of a window that its output reads

    @property
    def unread(self) -> int:
        """The rows at the end of each window that no output reads: an output comes this much before its window's
        end."""
        return self.window - self.first

    def ends(self, rows: int) -> range:
        """Returns the rows with which outputs come, if `rows` are pushed after a reset; the first is for the first
        window."""
        return range(self.first - 1, rows, self.hop)

    def of(self, output: int) -> range:
        """Returns the rows of the window that an output is for."""
        return range(output * self.hop, output * self.hop + self.window)

    def read(self, window: ArrayType) -> ArrayType:
        """Returns the rows of a window that its output reads, each flattened. The window is in the bundle's layout."""
        return window.reshape(self.window, -1)[: self.first]

    @property
    def in_words(self) -> str:
        """When outputs come and what they are for, in words for reports."""
        return f"an output every {'row' if self.hop == 1 else f'{self.hop} rows'}, for {self.which}"

    @property
    def which(self) -> str:
        """The window that an output is for, in words."""
        if self.unread == 0:
            return f"the last {self.window}"
        rows = "row is" if self.unread == 1 else f"{self.unread} rows are"
        return f"a window of {self.window} whose last {rows} not read and not waited for"

    def in_header(self, upper: str) -> str:
        """Describes the outputs in the terms of MODEL.h. `upper`: the prefix of its macros."""
        when = f"first after {upper}_FIRST_ROWS rows, then after each {upper}_HOP_ROWS"
        if self.unread == 0:
            return f"{when}, the same as for a window of the last {upper}_WINDOW_ROWS rows alone"
        return (
            f"{when}, the same as for a window of {upper}_WINDOW_ROWS rows alone that begins {upper}_FIRST_ROWS before "
            "the next row; the network does not read its other rows, so they are not waited for"
        )
