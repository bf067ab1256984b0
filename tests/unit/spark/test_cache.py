"""The location of the cache folder."""

from __future__ import annotations

import sys

import pytest

from floe_spark.java.cache import cache_dir


def test_the_variable_chooses_the_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FLOE_CACHE_DIR", str(tmp_path / "chosen"))
    assert cache_dir() == tmp_path / "chosen"


@pytest.mark.skipif(sys.platform != "linux", reason="other platforms have folders of their own")
def test_on_linux_the_folder_is_in_the_xdg_cache(tmp_path, monkeypatch):
    monkeypatch.delenv("FLOE_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_dir() == tmp_path / "xdg" / "floe"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_dir() == tmp_path / ".cache" / "floe"
