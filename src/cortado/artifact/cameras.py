"""The report of a camera in front of a network: what its front end takes."""

from cortado.artifact.camera_report import CameraReport
from cortado.emit.c.camera import camera_kernel, table_bytes
from cortado.plan.camera_costs import front_end_cycles
from cortado.plan.cameras import sight_of
from cortado.plan.planned import Planned


def camera_report(planned: Planned) -> CameraReport | None:
    """None without a camera."""
    sight = sight_of(planned.program)
    if sight is None:
        return None
    camera = sight.camera
    return CameraReport(
        format=camera.format,
        size=str(camera.size),
        crop=str(camera.crop),
        resize=str(camera.resize),
        filter=camera.filter,
        mean=camera.mean,
        std=camera.std,
        line_bytes=camera.line_bytes,
        held_bytes=sight.held_bytes,
        table_bytes=table_bytes(sight),
        cycles=front_end_cycles(planned.program.target, camera_kernel(sight), camera),
    )
