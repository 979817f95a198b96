"""report.json's part on a camera."""

from typing import Annotated

from cortado.base.camera import Camera, PixelFormat, ResizeFilter, camera_of, crop_of, size_of
from cortado.base.codec import Matching, Within, json_class, key

_MOST = 2**53 - 1
_Count = Annotated[int, Within("an integer from 0 to 2^53-1", 0, _MOST)]
_Size = Annotated[str, Matching("a size in pixels, as in 160x120", "[0-9]{1,5}x[0-9]{1,5}")]
_Crop = Annotated[
    str, Matching("a part of a picture, as in 20,0,120x120", "[0-9]{1,5},[0-9]{1,5},[0-9]{1,5}x[0-9]{1,5}")
]


@json_class
class CameraReport:
    """A camera in front of the C bundle's input."""

    format: PixelFormat = key("how pixels lie in the sensor's lines")
    size: _Size = key("of the sensor's pictures, in pixels")
    crop: _Crop = key("the part of them that the network sees: x, y and its size")
    resize: _Size = key("what that becomes: the size of the network's image")
    filter: ResizeFilter = key("how")
    mean: tuple[float, ...] = key("what is subtracted from pixels of 0 to 1, of each channel or of all")
    std: tuple[float, ...] = key("what they are then divided by")
    line_bytes: _Count = key("bytes of a line of the sensor")
    held_bytes: _Count = key("of the arena: the line that is kept for the next")
    table_bytes: _Count = key("of the flash: which pixels a row is made of, and their codes")
    cycles: _Count | None = key("of the front end for one picture, estimated; null for cores that it is not known for")

    @property
    def camera(self) -> Camera:
        crop, resize = crop_of(self.crop), size_of(self.resize, "resize")
        return camera_of(self.format, size_of(self.size, "size"), crop, resize, self.filter, self.mean, self.std)
