"""Downloading, against a real server on this machine."""

import io
import json
import os
import socket
import tarfile
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from itertools import repeat
from pathlib import Path

import pytest

from archive_server import ArchiveServer, Reply, archive_server, sha256, tar_gz, zipped
from builders import one_line
from nmfsync.errors import NmfsyncError, NmfsyncWarning
from nmfsync.scenes import catalogue, download

FILES = {
    "img1.ppm": b"P6 2 1 255\n" + bytes(range(6)),
    "img2.ppm": b"P6 2 1 255\n" + bytes(range(6, 12)),
    "H1to2p": b"1 0 0\n0 1 0\n0 0 1\n",
}
HASHES = {name: sha256(content) for name, content in FILES.items()}
GOOD = tar_gz(FILES)


@pytest.fixture
def server():
    with archive_server() as running:
        yield running


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A catalogue, a cache and an environment of its own for every test."""
    monkeypatch.setattr(catalogue, "CATALOGUE", tmp_path / "catalogue")
    monkeypatch.setattr(download, "RETRY_WAITS", (0.0, 0.0))
    monkeypatch.setattr(catalogue, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.delenv("NMFSYNC_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    (tmp_path / "catalogue").mkdir()
    return tmp_path / "cache"


def write_catalogue(*scenes, files=HASHES):
    """Write a data set "set" with scenes (name, archive SHA-256 or None, URLs …)."""
    lines = ['name = "set"', 'title = ""', 'format = "homographies"']
    lines += ['homepage = ""', 'citation = ""', 'terms = ""']
    for name, archive_hash, *urls in scenes:
        lines += ["[[scenes]]", f'name = "{name}"']
        lines += ["[[scenes.archives]]", f"urls = {json.dumps(urls)}"]
        lines += [f'sha256 = "{archive_hash}"'] if archive_hash else []
        lines += ["[scenes.files]", *(f'"{file}" = "{h}"' for file, h in files.items())]
    (catalogue.CATALOGUE / "set.toml").write_text("\n".join(lines))


def everything_below(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


@pytest.fixture
def closed_ports():
    """Two addresses that nobody answers: their ports are taken, but not listened at."""
    with socket.socket() as one, socket.socket() as other:
        for probe in (one, other):
            probe.bind(("127.0.0.1", 0))
        yield [f"http://127.0.0.1:{probe.getsockname()[1]}" for probe in (one, other)]


WHOLE = ["set", "set/a", "set/a/H1to2p", "set/a/img1.ppm", "set/a/img2.ppm"]


def test_scene_is_downloaded_checked_and_read(server: ArchiveServer, cache):
    write_catalogue(("a", sha256(GOOD), server.serve("a.tar.gz", GOOD)))
    scene = catalogue.load_scene("set/a")
    assert scene.name == "set/a"
    assert scene.paths == (cache / "set/a/img1.ppm", cache / "set/a/img2.ppm")
    assert scene.images[0].tolist() == [[[0, 1, 2], [3, 4, 5]]]
    assert everything_below(cache) == WHOLE
    assert {check.status for check in catalogue.check_files("set")} == {"ok"}


def test_zip_with_a_folder_inside_is_unpacked(server, cache):
    body = zipped({f"some folder/{name}": content for name, content in FILES.items()})
    write_catalogue(("a", None, server.serve("a.zip", body)))
    assert catalogue.fetch("set/a") == [cache / "set/a"]
    assert everything_below(cache) == WHOLE


def test_second_fetch_makes_no_request(server, cache):
    urls = [server.serve(f"{name}.tar.gz", GOOD) for name in "ab"]
    write_catalogue(("a", None, urls[0]), ("b", None, urls[1]))
    catalogue.fetch("set/a")
    catalogue.fetch("set")
    catalogue.fetch("set")
    assert server.requests == ["/a.tar.gz", "/b.tar.gz"]


def test_damaged_copy_is_replaced_and_other_files_stay(server, cache):
    write_catalogue(("a", None, server.serve("a.tar.gz", GOOD)))
    catalogue.fetch("set")
    (cache / "set/a/img1.ppm").write_bytes(b"damaged")
    (cache / "set/a/notes.txt").write_text("mine")
    checks = {check.path.name: check.status for check in catalogue.check_files("set/a")}
    assert checks == {
        "img1.ppm": "differs",
        "img2.ppm": "ok",
        "H1to2p": "ok",
        "notes.txt": "unknown",
    }
    catalogue.fetch("set")
    assert (cache / "set/a/img1.ppm").read_bytes() == FILES["img1.ppm"]
    assert (cache / "set/a/notes.txt").read_text() == "mine"


def test_data_folder_comes_before_the_cache(server, cache, tmp_path):
    write_catalogue(("a", None, server.serve("a.tar.gz", GOOD)))
    assert catalogue.fetch("set", tmp_path / "mine") == [tmp_path / "mine/set/a"]
    assert not cache.exists()
    scene = catalogue.load_scene("set/a", tmp_path / "mine")
    assert scene.paths[0].parent == tmp_path / "mine/set/a"
    assert len(server.requests) == 1


def test_environment_variable_names_the_data_folder(server, cache, tmp_path, monkeypatch):
    write_catalogue(("a", None, server.serve("a.tar.gz", GOOD)))
    catalogue.fetch("set", tmp_path / "mine")
    monkeypatch.setenv("NMFSYNC_DATA", str(tmp_path / "mine"))
    assert catalogue.load_scene("set/a").paths[0].parent == tmp_path / "mine/set/a"
    assert catalogue.load_scene("set/a", tmp_path / "empty").name == "set/a"
    assert catalogue.fetch("set") == [tmp_path / "mine/set/a"]
    assert len(server.requests) == 1


def test_missing_mirror_is_passed_over_at_once(server, cache):
    gone = f"{server.address}/gone.tar.gz"
    write_catalogue(("a", sha256(GOOD), gone, server.serve("a.tar.gz", GOOD)))
    catalogue.fetch("set")
    assert server.requests == ["/gone.tar.gz", "/a.tar.gz"]


def test_server_error_is_tried_three_times(server, cache):
    write_catalogue(("a", None, server.serve("a.tar.gz", b"busy", status=503)))
    with pytest.raises(NmfsyncError, match="HTTP status 503"):
        catalogue.fetch("set")
    assert len(server.requests) == 3


def test_wrong_archive_hash_is_named_with_the_wanted_one(server, cache):
    wanted = "0" * 64
    url = server.serve("a.tar.gz", GOOD)
    write_catalogue(("a", wanted, url))
    with pytest.raises(NmfsyncError) as caught:
        catalogue.load_scene("set/a")
    message = str(caught.value)
    assert f"{url}: received a file of {len(GOOD)} bytes" in message
    assert sha256(GOOD) in message
    assert wanted in message
    assert f"unpack a.tar.gz into {cache / 'set/a'}" in message
    assert everything_below(cache) == ["set"]


def test_wrong_file_in_the_archive_is_refused(server, cache):
    body = tar_gz({**FILES, "img2.ppm": b"something else"})
    write_catalogue(("a", None, server.serve("a.tar.gz", body)))
    with pytest.raises(NmfsyncError, match=r"img2.ppm has SHA-256 \w+, expected \w+"):
        catalogue.fetch("set")
    assert everything_below(cache) == ["set"]


def test_file_missing_from_the_archive_is_named(server, cache):
    body = tar_gz({name: FILES[name] for name in ["img1.ppm", "H1to2p"]})
    write_catalogue(("a", None, server.serve("a.tar.gz", body)))
    with pytest.raises(NmfsyncError, match=r"the archive does not contain img2.ppm"):
        catalogue.fetch("set")
    assert everything_below(cache) == ["set"]


@pytest.mark.parametrize("archive_hash", [sha256(GOOD), None], ids=["known hash", "no hash"])
def test_web_page_instead_of_an_archive_is_recognised(server, cache, archive_hash):
    page = b"<!DOCTYPE html>\n<HTML><body>We have moved</body></HTML>"
    write_catalogue(("a", archive_hash, server.serve("a.tar.gz", page)))
    with pytest.raises(NmfsyncError, match=f"received an HTML page of {len(page)} bytes"):
        catalogue.fetch("set")
    assert everything_below(cache) == ["set"]


def test_connection_cut_half_way_is_tried_again_then_reported(server, cache):
    half = GOOD[: len(GOOD) // 2]
    url = server.serve("a.tar.gz", half, claimed=len(GOOD))
    write_catalogue(("a", None, url))
    with pytest.raises(NmfsyncError, match=f"cut .*{len(half)} bytes read"):
        catalogue.fetch("set")
    assert len(server.requests) == 3
    assert everything_below(cache) == ["set"]


def test_offline_is_said_for_every_address(closed_ports, tmp_path):
    urls = [f"{address}/archive.tar.gz" for address in closed_ports]
    write_catalogue(("a", None, *urls))
    with pytest.raises(NmfsyncError) as caught:
        catalogue.load_scene("set/a", tmp_path / "mine")
    message = str(caught.value)
    for url in urls:
        assert f"{url}: no connection (Connection refused)" in message
    assert f"{tmp_path / 'mine/set/a'} (no such folder)" in message


def test_archive_cut_half_way_on_the_server_leaves_nothing(server, cache):
    write_catalogue(("a", None, server.serve("a.tar.gz", GOOD[:-30])))
    with pytest.raises(NmfsyncError, match="cannot be unpacked"):
        catalogue.fetch("set")
    assert everything_below(cache) == ["set"]


def test_interrupted_unpacking_leaves_nothing(server, cache, monkeypatch):
    def interrupted(self, path, *args, **kwargs):
        (Path(path) / "img1.ppm").write_bytes(b"half")
        raise KeyboardInterrupt

    write_catalogue(("a", None, server.serve("a.tar.gz", GOOD)))
    monkeypatch.setattr(tarfile.TarFile, "extractall", interrupted)
    with pytest.raises(KeyboardInterrupt):
        catalogue.fetch("set")
    assert everything_below(cache) == ["set"]


def link(name: str, target: str, kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def device() -> tarfile.TarInfo:
    member = tarfile.TarInfo("null")
    member.type = tarfile.CHRTYPE
    return member


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (tar_gz({**FILES, "../../../evil": b"x"}), "'../../../evil', which is outside"),
        (tar_gz({**FILES, "/tmp/evil": b"x"}), "'/tmp/evil', which is outside"),
        (zipped({**FILES, "../../../evil": b"x"}), "'../../../evil', which is outside"),
        (tar_gz(FILES, link("evil", "/etc", tarfile.SYMTYPE)), "'evil', which is neither a file"),
        (tar_gz(FILES, link("evil", "img1.ppm", tarfile.LNKTYPE)), "'evil', which is neither"),
        (tar_gz(FILES, device()), "'null', which is neither a file"),
    ],
    ids=["parent", "absolute", "zip parent", "symbolic link", "hard link", "device"],
)
def test_hostile_archive_is_refused_whole(server, cache, tmp_path, body, fault):
    before = everything_below(tmp_path)
    write_catalogue(("a", None, server.serve("archive", body)))
    with pytest.raises(NmfsyncError, match=fault):
        catalogue.fetch("set")
    new = set(everything_below(tmp_path)) - set(before)
    assert new == {"cache", "cache/set", "catalogue/set.toml"}
    assert not Path("/tmp/evil").exists()


def test_archive_that_would_fill_the_disk_is_refused(server, cache):
    giant = tarfile.TarInfo("zeros")
    giant.size = download.MAX_UNPACKED + 1
    write_catalogue(("a", None, server.serve("a.tar.gz", tar_gz(FILES, giant))))
    with pytest.raises(NmfsyncError, match="unpacks to more than 4 GB"):
        catalogue.fetch("set")
    assert everything_below(cache) == ["set"]


def drip():
    """A byte now and then, for longer than anybody waits."""
    for _ in range(600):
        time.sleep(0.05)
        yield b"x"


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        (Reply(pieces=drip()), r"too slow: sent \d+ bytes in 0.3 seconds"),
        (Reply(pieces=repeat(bytes(2**16))), "sends more than 500,000 bytes"),
        (Reply(claimed=5), "the connection was cut"),
        (Reply(), "received a file of 0 bytes"),
        (Reply(status=302, location="archive"), "Exceeded 30 redirects"),
    ],
    ids=["drip", "endless", "nothing of five bytes", "nothing", "circle"],
)
def test_address_that_never_sends_an_archive_is_given_up(server, cache, monkeypatch, reply, fault):
    monkeypatch.setattr(download, "WINDOW", 0.3)
    monkeypatch.setattr(download, "MAX_RECEIVED", 500_000)
    write_catalogue(("a", None, server.answer("archive", reply)))
    with pytest.raises(NmfsyncError, match=fault):
        catalogue.fetch("set")
    assert everything_below(cache) == ["set"]


def test_address_that_is_slow_for_a_good_while_is_waited_for(server, cache, monkeypatch):
    def pieces():
        for byte in GOOD:
            time.sleep(1 / len(GOOD))
            yield bytes([byte])

    monkeypatch.setattr(download, "WINDOW", 0.3)
    monkeypatch.setattr(download, "LEAST_RATE", 0)
    write_catalogue(("a", None, server.answer("archive", Reply(pieces=pieces()))))
    assert catalogue.fetch("set") == [cache / "set/a"]


def test_without_another_thread_it_is_downloaded_all_the_same(server, cache, monkeypatch):
    class NoneLeft(threading.Thread):
        def start(self):
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(download, "Thread", NoneLeft)
    write_catalogue(("a", None, server.serve("a.tar.gz", GOOD)))
    assert catalogue.fetch("set") == [cache / "set/a"]


def overlapping() -> bytes:
    """A zip archive with two names for the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as pack:
        pack.writestr("img1.ppm", os.urandom(3000))
        first = pack.infolist()[0]
        for n in range(9):
            again = copy(first)
            again.filename = again.orig_filename = f"img{n}.pgm"
            pack.filelist.append(again)
            pack.NameToInfo[again.filename] = again
    return buffer.getvalue()


def long_header() -> bytes:
    """A tar archive with a name of 20 MB, which is 20 kB of the archive."""
    name = tarfile.TarInfo("././@LongLink")
    name.type, name.size = tarfile.GNUTYPE_LONGNAME, 20 * 2**20
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        tar.addfile(name, io.BytesIO(b"x" * name.size))
    return buffer.getvalue()


MANY = {f"{n}": b"x" for n in range(20)}


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (tar_gz(MANY), "more than 10 files"),
        (zipped(MANY), "more than 10 files"),
        (tar_gz({}), "the archive contains nothing"),
        (zipped({}), "the archive contains nothing"),
        (tar_gz({"a": b"", "b": b""}), "the archive contains nothing"),
        (tar_gz({**FILES, "a/" * 2000 + "b": b"x"}), "…', which is not a usable name"),
        (zipped({**FILES, "a/" * 2000 + "b": b"x"}), "…', which is not a usable name"),
        (tar_gz({**FILES, "a" * 5000: b"x"}), "aa…', which is not a usable name"),
        (tar_gz({**FILES, "a\x1b[31m": b"x"}), r"'a\\x1b\[31m', which is not a usable name"),
        (overlapping(), "the same bytes several times|Overlapped entries"),
        (long_header(), "a header of 20,971,520 bytes"),
    ],
    ids=["tar members", "zip members", "empty tar", "empty zip", "empty files", "deep tar",
         "deep zip", "long name", "control characters", "overlapping", "long header"],
)  # fmt: skip
def test_archive_beyond_the_limits_is_refused_whole(server, cache, monkeypatch, body, fault):
    monkeypatch.setattr(download, "MAX_MEMBERS", 10)
    write_catalogue(("a", None, server.serve("archive", body)), files={})
    with pytest.raises(NmfsyncError, match=fault):
        catalogue.fetch("set")
    assert everything_below(cache) == ["set"]


def test_hashes_are_recorded_where_none_are_known(server, cache):
    write_catalogue(("a", None, server.serve("a.tar.gz", GOOD)), files={})
    with pytest.warns(NmfsyncWarning, match="set/a: no hashes are known"):
        catalogue.fetch("set")
    record = (cache / "set/a/SHA256SUMS").read_text()
    assert f"{HASHES['img1.ppm']}  img1.ppm\n" in record
    assert [check.status for check in catalogue.check_files("set")] == ["ok"] * 3
    (cache / "set/a/img1.ppm").write_bytes(b"changed")
    statuses = {check.path.name: check.status for check in catalogue.check_files("set")}
    assert statuses == {"H1to2p": "ok", "img1.ppm": "differs", "img2.ppm": "ok"}


def damage(path: Path) -> None:
    """Flip one bit of a file: its size and, of an image, its header stay."""
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("files", [HASHES, {}], ids=["published", "recorded"])
@pytest.mark.parametrize("name", [*FILES])
@pytest.mark.filterwarnings("ignore:set/a. no hashes are known")
def test_a_changed_file_is_not_used(server, cache, name, files):
    write_catalogue(("a", None, server.serve("a.tar.gz", GOOD)), files=files)
    before = catalogue.load_scene("set/a")
    damage(cache / "set/a" / name)
    (cache / "set/a/notes.txt").write_text("of my own")
    with pytest.raises(NmfsyncError, match="is not the known file") as error:
        catalogue.load_scene("set/a")
    assert one_line(error).startswith(f"{cache / 'set/a' / name}: ")
    assert one_line(error).endswith(": nmfsync data fetch set/a")
    catalogue.fetch("set/a")
    assert catalogue.load_scene("set/a").digests == before.digests


def test_a_changed_file_in_a_folder_of_ones_own_names_the_folder(server, tmp_path):
    write_catalogue(("a", None, server.serve("a.tar.gz", GOOD)))
    home = tmp_path / "my data"
    catalogue.fetch("set/a", home)
    damage(home / "set/a/H1to2p")
    with pytest.raises(NmfsyncError, match=f"data fetch set/a --data '{home}'"):
        catalogue.load_scene("set/a", home)


def test_an_image_that_changes_after_the_check_is_not_used(server, cache, monkeypatch):
    write_catalogue(("a", None, server.serve("a.tar.gz", GOOD)))
    catalogue.fetch("set/a")
    read = catalogue.READERS["homographies"]

    def read_late(name, folder):
        damage(folder / "img2.ppm")
        return read(name, folder)

    monkeypatch.setitem(catalogue.READERS, "homographies", read_late)
    with pytest.raises(NmfsyncError, match=r"img2\.ppm: is not the known file"):
        catalogue.load_scene("set/a")


@pytest.mark.parametrize("content", [b"half a line", b"\xff\n", b"0" * 64 + b" one blank\n"])
@pytest.mark.filterwarnings("ignore:set/a. no hashes are known")
def test_a_damaged_record_of_hashes_is_named(server, cache, content):
    write_catalogue(("a", None, server.serve("a.tar.gz", GOOD)), files={})
    catalogue.fetch("set/a")
    (cache / "set/a/SHA256SUMS").write_bytes(content)
    with pytest.raises(NmfsyncError, match="SHA256SUMS: is not the known file") as error:
        catalogue.load_scene("set/a")
    one_line(error)
    catalogue.fetch("set/a")
    catalogue.load_scene("set/a")


def test_two_fetches_at_once_do_not_harm_each_other(server, cache):
    server.crowd = threading.Barrier(2)
    write_catalogue(("a", None, server.serve("a.tar.gz", GOOD)))
    with ThreadPoolExecutor(2) as pool:
        results = [pool.submit(catalogue.fetch, "set") for _ in range(2)]
        assert [result.result() for result in results] == [[cache / "set/a"]] * 2
    assert len(server.requests) == 2
    assert everything_below(cache) == WHOLE
    assert {check.status for check in catalogue.check_files("set")} == {"ok"}


def test_scene_of_several_archives_is_put_together(server, cache):
    images = tar_gz({name: FILES[name] for name in ["img1.ppm", "img2.ppm"]})
    truth = zipped({"H1to2p": FILES["H1to2p"]})
    write_catalogue(("a", None, server.serve("images", images)))
    path = catalogue.CATALOGUE / "set.toml"
    second = f'[[scenes.archives]]\nurls = ["{server.serve("truth", truth)}"]\n[scenes.files]'
    path.write_text(path.read_text().replace("[scenes.files]", second))
    catalogue.fetch("set")
    assert everything_below(cache) == WHOLE


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_folder_that_may_not_be_written_is_named(server, tmp_path):
    write_catalogue(("a", None, server.serve("a.tar.gz", GOOD)))
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(NmfsyncError, match="locked/set/a: cannot be written"):
        catalogue.fetch("set", tmp_path / "locked")


def test_place_that_is_a_file_is_named(server, tmp_path):
    write_catalogue(("a", None, server.serve("a.tar.gz", GOOD)))
    (tmp_path / "file").write_text("")
    with pytest.raises(NmfsyncError, match="file/set/a: cannot be written"):
        catalogue.fetch("set", tmp_path / "file")


def test_fetch_of_something_unknown_is_an_error(tmp_path):
    write_catalogue()
    with pytest.raises(NmfsyncError, match="no data set, scene or folder 'sett'"):
        catalogue.fetch("sett")
    with pytest.raises(NmfsyncError, match="is not in the catalogue"):
        catalogue.fetch(str(tmp_path))
