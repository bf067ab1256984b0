"""Vended credentials: lookup, renewal, and staging of files."""

from __future__ import annotations

import pickle
import time

import pytest

from floe_core.errors import CatalogUnavailableError
from floe_polaris.credentials.vending import VendedFileIO, are_credentials, credentials_in, expiry_of


def vended(seconds, key="a"):
    return {
        "s3.access-key-id": key,
        "s3.secret-access-key": "canary",
        "s3.session-token": key,
        "s3.session-token-expires-at-ms": str(int((time.time() + seconds) * 1000)),
    }


def test_credentials_are_told_from_other_properties():
    found = credentials_in({**vended(60), "s3.endpoint": "http://x", "adls.sas-token.account": "s", "owner": "me"})
    assert "s3.endpoint" not in found
    assert "owner" not in found
    assert found["adls.sas-token.account"] == "s"
    assert are_credentials(found)
    assert not are_credentials({"expiration-time": "1"})


def test_the_earliest_expiry_counts():
    assert expiry_of({"s3.session-token-expires-at-ms": "5000", "expiration-time": "4000"}) == 4.0
    assert expiry_of({"owner": "me"}) is None


@pytest.mark.req("FR-004")
def test_credentials_are_asked_for_again_when_a_third_of_their_life_is_left(tmp_path):
    asked = []

    def renew():
        asked.append(1)
        return vended(600, key="b")

    io = VendedFileIO(vended(0.3), renew)
    io.fs_by_scheme("file", "")
    assert asked == []
    time.sleep(0.25)
    io.fs_by_scheme("file", "")
    io.fs_by_scheme("file", "")
    assert len(asked) == 1
    assert io.properties["s3.access-key-id"] == "b"


def test_while_the_old_ones_hold_a_failed_renewal_is_no_error():
    def renew():
        msg = "down"
        raise CatalogUnavailableError(msg)

    io = VendedFileIO(vended(600), renew)
    io._due = 0.0
    io.fs_by_scheme("file", "")
    io.properties = {**io.properties, **vended(-1)}
    with pytest.raises(CatalogUnavailableError):
        io.fs_by_scheme("file", "")


def test_a_staged_file_appears_when_it_is_whole_and_not_after_an_error(tmp_path):
    io = VendedFileIO(vended(600), dict)
    whole, broken = f"file://{tmp_path}/whole", f"file://{tmp_path}/broken"
    stream = io.new_output(whole).create()
    stream.write(b"con")
    stream.write(memoryview(b"tent"))
    assert stream.tell() == 7
    assert not (tmp_path / "whole").exists()
    stream.close()
    stream.close()
    assert (tmp_path / "whole").read_bytes() == b"content"
    assert len(io.new_output(whole)) == 7
    with pytest.raises(FileExistsError):
        io.new_output(whole).create()
    stream = io.new_output(broken).create()
    stream.write(b"half")
    stream.__exit__(RuntimeError, RuntimeError(), None)
    assert not (tmp_path / "broken").exists()


def test_an_upload_that_is_refused_is_repeated_with_new_credentials(tmp_path):
    io = VendedFileIO(vended(600), lambda: vended(600, key="b"))
    tries = []

    def upload():
        tries.append(io.properties["s3.access-key-id"])
        if len(tries) == 1:
            msg = "AWS Error ACCESS_DENIED during PutObject operation"
            raise OSError(msg)

    io._upload_with_renewal(upload)
    assert tries == ["a", "b"]

    def broken():
        tries.append("full")
        msg = "No space left on device"
        raise OSError(msg)

    with pytest.raises(OSError, match="No space"):
        io._upload_with_renewal(broken)
    assert tries == ["a", "b", "full"]


def test_a_copy_in_another_process_works_without_asking(tmp_path):
    io = pickle.loads(pickle.dumps(VendedFileIO(vended(600), dict)))  # noqa: S301 - our own
    with io.new_output(f"file://{tmp_path}/x").create() as stream:
        stream.write(b"x")
    assert (tmp_path / "x").read_bytes() == b"x"
