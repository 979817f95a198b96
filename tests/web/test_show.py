"""cortado show: the page and the report on localhost, to nobody else unless it is asked for."""

import json
import re
import threading
import urllib.request
import wave
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError

import numpy as np
import pytest
import torch
from torch import nn

import cortado
from cortado.api import Model
from cortado.artifact.opened import PAGE, Artifact
from cortado.cli.commands import WRITTEN
from cortado.options import Artifacts, Options, PackageKind
from cortado.web import server
from cortado.web.server import EVERYWHERE, LOCAL, Served, serve
from helpers.cli import Run, one_sentence, without_torch
from helpers.paths import ROOT
from helpers.site import documentation

_RUN = Served.run  # whatever a test puts in its place
PAGES = {"index.html": b"<p>first", "report.html": b"<p>second"}


@contextmanager
def running(served: Served) -> Iterator[Served]:
    thread = threading.Thread(target=_RUN, args=(served,))
    thread.start()
    try:
        yield served
    finally:
        served.server.shutdown()
        thread.join()


def asked(address: str, host: str | None = None) -> tuple[int, bytes]:
    request = urllib.request.Request(address, headers={} if host is None else {"Host": host})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read()
    except HTTPError as error:
        with error:
            return error.code, error.read()


def test_this_machine_alone_gets_these_pages_alone() -> None:
    with running(serve(PAGES)) as served:
        address = served.address
        assert served.server.server_address[0] == LOCAL
        assert served.reach == "only this machine can open it"
        assert asked(address) == (200, b"<p>first")
        assert asked(address.replace("index", "report") + "?again") == (200, b"<p>second")
        assert asked(address.replace("index.html", "../etc/passwd"))[0] == 404
        assert asked(address, "elsewhere.example:80")[0] == 403


def test_the_network_needs_the_secret_of_the_address() -> None:
    with running(serve(PAGES, lan=True)) as served:
        assert served.server.server_address[0] == EVERYWHERE
        assert "everybody in your network who has this address" in served.reach
        *_, code, name = served.address.split("/")
        local = f"http://{LOCAL}:{served.server.server_port}"
        assert len(code) >= 12
        assert asked(f"{local}/{code}/{name}")[0] == 200
        assert asked(f"{local}/{name}")[0] == 404
    with running(serve(PAGES, lan=True)) as other:
        assert code not in other.address


@pytest.fixture(scope="module")
def heard(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """A stream of samples."""
    batches = [(torch.rand(1, 256) * 2 - 1,) for _ in range(16)]

    class Loud(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Conv2d(1, 2, (3, 33))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            power = torch.fft.rfft(x.unfold(1, 64, 32) * torch.hann_window(64)).abs()
            found: torch.Tensor = self.head(torch.log(power + 1e-2)[:, None]).mean(2).flatten(1)
            return found

    options = cortado.Options(stream=1, artifacts="c")
    made = cortado.compile(Loud().eval(), batches[0], "cortex-m4", batches, name="loud", options=options)
    return made.save(tmp_path_factory.mktemp("loud") / "loud")


def sound(path: Path) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8_000)
        file.writeframes(np.arange(800, dtype="<i2").tobytes())
    return path


@pytest.mark.host
def test_the_command_shows_the_page_with_the_report_and_recordings(
    run: Run, heard: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    found: dict[str, bytes] = {}

    def look(served: Served) -> None:
        with running(served):
            for name in ("index.html", PAGE):
                found[name] = asked(served.address.replace("index.html", name))[1]

    monkeypatch.setattr(server.Served, "run", look)
    monkeypatch.setattr(webbrowser, "open", opened.append)
    done = run("show", heard.folder, "--recording", sound(tmp_path / "beep.wav"))
    assert (done.code, opened) == (0, [done.out.splitlines()[0]])
    assert found[PAGE] == (heard.folder / PAGE).read_bytes()
    text = found["index.html"].decode()
    facts = json.loads(text.partition('id="facts">')[2].partition("</script>")[0])
    assert (facts["recordings"], facts["rate"], facts["report"]) == ([{"name": "beep", "rate": 8000}], 8000, PAGE)
    assert facts["kind"] == "sound"


@pytest.mark.host
def test_the_page_can_be_a_file(run: Run, heard: Artifact, tmp_path: Path) -> None:
    done = run("show", heard.folder, "--write", tmp_path / "loud.html")
    assert (done.code, done.out) == (0, f"written to {tmp_path / 'loud.html'}\n")
    assert (tmp_path / "loud.html").read_text().startswith("<!doctype html>")


@pytest.mark.host
def test_without_torch_the_page_that_was_written_is_shown(tiny: Model, tiny_artifact: Artifact, tmp_path: Path) -> None:
    """Of a folder that was compiled with --package web; others say what is missing."""
    options = Options(artifacts=Artifacts.C, package=(PackageKind.WEB,))
    folder = tiny.compile("cortex-m4", options).save(tmp_path / "tiny").folder
    done = without_torch("show", folder, "--write", tmp_path / "page.html")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "page.html").read_bytes() == (folder / WRITTEN).read_bytes()
    for arguments, what in (
        ((tiny_artifact.folder,), f"{tiny_artifact.folder} has none"),
        ((folder, "--recording", sound(tmp_path / "beep.wav")), "its sounds are put into it"),
    ):
        done = without_torch("show", *arguments)
        assert done.returncode == 2
        assert done.stderr.splitlines() == [
            "cortado: making the page needs torch, which is not installed (pip install 'cortado[compile]'); without "
            f"it `cortado show` serves the page that `cortado compile --package web` wrote, and {what}"
        ]


def test_mistakes_are_told_in_one_sentence(run: Run, tiny_artifact: Artifact, heard: Artifact, tmp_path: Path) -> None:
    beep = sound(tmp_path / "beep.wav")
    one_sentence(run("show", tiny_artifact.folder, "--recording", beep), "expected a stream of samples")
    one_sentence(run("show", heard.folder, "--recording", tmp_path / "none.wav"), "there is no file")
    one_sentence(run("show", heard.folder, "--port", "70000"), "--port 70000 is not a port")
    with running(serve(PAGES)) as served:
        port = served.server.server_port
        one_sentence(run("show", heard.folder, "--port", port), f"--port {port} can't be listened on")


def test_the_page_to_try_it_names_every_network_that_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    live = documentation(monkeypatch).LIVE
    text = (ROOT / "docs" / "try.md").read_text()
    assert re.findall(r'href="try/(\w+)\.html"', text) == list(live)
    for made, beside in live.values():
        for command in (made, beside):
            assert all(part.replace("{}", "build/") in text for part in command if "/" in part)
