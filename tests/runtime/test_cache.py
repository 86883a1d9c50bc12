"""The object cache: safe, atomic, checked, bounded; every failure is a miss."""

import os
import stat
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from broadloom.errors import CacheError
from broadloom.runtime import cache as cache_module
from broadloom.runtime.cache import CacheEntry, ObjectCache, cache_key, source_digest
from broadloom.runtime.target import host

KEY, OTHER = "0a" * 32, "0b" * 32


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "new" / "cache"


@pytest.fixture
def store(folder):
    with ObjectCache(folder) as opened:
        yield opened


def path_of(store, key=KEY):
    return store.folder / f"{key}.entry"


def test_entries_come_back_in_this_and_another_opening(store, folder):
    assert store.get(KEY) is None
    data = bytes(range(256)) * 40
    assert store.put(KEY, data, "note: é")
    assert store.get(KEY) == CacheEntry(data, "note: é")
    with ObjectCache(folder) as again:
        assert again.get(KEY) == CacheEntry(data, "note: é")
        assert again.get(OTHER) is None
    s = store.statistics
    assert (s.hits, s.misses, s.stores, s.refused) == (1, 1, 1, 0)


def test_only_the_user_can_read_what_is_written(store, folder):
    store.put(KEY, b"x")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(path_of(store).stat().st_mode) == 0o600
    assert [p.name for p in folder.iterdir()] == [f"{KEY}.entry"]


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o720])
def test_a_folder_that_others_can_write_to_is_refused(folder, mode):
    folder.mkdir(parents=True)
    folder.chmod(mode)
    with pytest.raises(CacheError, match=r"not safe.*others can write"):
        ObjectCache(folder)


def test_a_folder_of_somebody_else_is_refused(folder, monkeypatch):
    folder.mkdir(parents=True, mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(CacheError, match="belongs to user"):
        ObjectCache(folder)


def test_a_file_in_the_place_of_the_folder_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    for wrong in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / "nul\0"):
        with pytest.raises(CacheError, match="cannot be used"):
            ObjectCache(wrong)


def damage(content):
    yield "empty", b""
    yield "header cut", content[:20]
    yield "body cut", content[:-1]
    yield "longer", content + b"x"
    yield "one bit", content[:-3] + bytes([content[-3] ^ 1]) + content[-2:]
    yield "other magic", b"ELF!" + content[4:]
    yield "other format", content[:4] + b"\x63" + content[5:]
    yield "other key", content[:8] + bytes(32) + content[40:]
    yield "checksum", content[:60] + bytes([content[60] ^ 1]) + content[61:]
    yield "foreign", b"#!/bin/sh\nrm -rf /\n" * 10


def test_damaged_and_foreign_entries_are_misses_and_are_replaced(store):
    store.put(KEY, b"code" * 50, "note")
    whole = path_of(store).read_bytes()
    for what, content in damage(whole):
        path_of(store).write_bytes(content)
        before = store.statistics.refused
        assert store.get(KEY) is None, what
        assert store.statistics.refused == before + 1, what
        assert store.put(KEY, b"code" * 50, "note"), what
        assert path_of(store).read_bytes() == whole, what


def test_an_entry_under_another_name_is_a_miss(store):
    store.put(KEY, b"code")
    os.rename(path_of(store), path_of(store, OTHER))
    assert store.get(OTHER) is None


def test_what_is_no_plain_file_of_ours_is_a_miss_and_is_replaced(store, tmp_path):
    store.put(KEY, b"code")
    copy = tmp_path / "elsewhere"
    os.rename(path_of(store), copy)
    for plant in (
        lambda p: p.symlink_to(copy),
        lambda p: p.mkdir(),
        os.mkfifo,
        lambda p: (p.write_bytes(copy.read_bytes()), p.chmod(0o666)),
    ):
        plant(path_of(store))
        assert store.get(KEY) is None
        assert store.put(KEY, b"new") and store.get(KEY).data == b"new"
        path_of(store).unlink()
    assert copy.read_bytes()[-4:] == b"code"


def test_swapping_the_path_changes_nothing(store, folder):
    store.put(KEY, b"mine")
    os.rename(folder, folder.with_name("moved"))
    folder.mkdir()
    (folder / f"{KEY}.entry").write_bytes(b"theirs")
    assert store.get(KEY).data == b"mine"


def test_a_file_system_that_refuses_writing_is_no_error(store, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    store.put(OTHER, b"old")
    with monkeypatch.context() as m:
        m.setattr(os, "rename", full)
        assert store.put(KEY, b"code") is False
    assert [p.name for p in store.folder.iterdir()] == [f"{OTHER}.entry"]
    assert store.statistics.failures == 1 and store.get(OTHER).data == b"old"
    store.close()
    assert store.get(OTHER) is None and store.put(KEY, b"code") is False


def test_an_interrupt_leaves_no_piece(store, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", interrupt)
    with pytest.raises(KeyboardInterrupt):
        store.put(KEY, b"code")
    assert list(store.folder.iterdir()) == []


def test_the_bound_holds_and_the_longest_unused_leave_first(folder):
    keys = [f"{k:02x}" * 32 for k in range(20)]
    with ObjectCache(folder, limit=20_000) as store:
        for age, key in enumerate(keys[:10]):
            store.put(key, bytes(1500))
            os.utime(path_of(store, key), (1000 + age, 1000 + age))
        assert store.get(keys[0]) is not None  # used: now the youngest
        for key in keys[10:]:
            store.put(key, bytes(1500))
        count, size = store.contents()
        assert size <= 20_000 and count < 20
        assert store.get(keys[0]) is not None and store.get(keys[-1]) is not None
        assert store.get(keys[1]) is None and store.statistics.evicted >= 7
        assert store.put(OTHER, bytes(30_000)) is False
        assert store.clear() == store.statistics.stores - store.statistics.evicted
        assert store.contents() == (0, 0)


def test_files_of_others_stay(folder):
    others = [folder / name for name in ("notes.entry", "film.partial", f"{KEY[:-1]}.entry", "12.partial", "a.txt")]
    with ObjectCache(folder, limit=20_000) as store:
        for path in others:
            path.write_bytes(bytes(5000))
            os.utime(path, (1000, 1000))
        for k in range(20):
            store.put(f"{k:02x}" * 32, bytes(1500))
        store.clear()
        assert store.contents() == (0, 0)
    assert sorted(folder.iterdir()) == sorted(others)


def test_pieces_of_dead_processes_are_swept(folder):
    with ObjectCache(folder) as store:
        old, young = folder / f"1.{8 * 'aa'}.partial", folder / f"2.{8 * 'bb'}.partial"
        for piece in (old, young):
            piece.write_bytes(b"x")
        os.utime(old, (1, 1))
        store.put(KEY, b"code")
        assert not old.exists() and young.exists()


def test_a_wrong_key_is_refused(store):
    for key in ("", "../" + "a" * 61, "A" * 64, "a" * 63):
        with pytest.raises(CacheError, match="not a key"):
            store.get(key)


WRITER = """
import sys
from pathlib import Path
from broadloom.runtime.cache import ObjectCache
seed = int(sys.argv[2])
with ObjectCache(Path(sys.argv[1]), limit=200_000) as store:
    for round in range(60):
        for k in range(12):
            key = f"{k:02x}" * 32
            found = store.get(key)
            if found is not None and (found.note != f"entry {k}" or found.data != bytes([k]) * (5000 + 1000 * k)):
                sys.exit(f"a torn entry {k}")
            if (round + k + seed) % 3 == 0:
                store.put(key, bytes([k]) * (5000 + 1000 * k), f"entry {k}")
    if store.statistics.refused:
        sys.exit("a refused entry")
"""


def test_many_processes_at_once(folder):
    ObjectCache(folder).close()
    arguments = [[sys.executable, "-c", WRITER, str(folder), str(seed)] for seed in range(3)]
    running = [subprocess.Popen(a, stderr=subprocess.PIPE, text=True) for a in arguments]
    assert [(p.communicate(timeout=60)[1], p.returncode) for p in running] == [("", 0)] * 3


def test_many_threads_at_once(store):
    wrong = []

    def work(k):
        for _ in range(50):
            store.put(KEY, b"same" * 500)
            found = store.get(KEY)
            if found is None or found.data != b"same" * 500:
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and store.statistics.stores == 200


def test_every_component_is_part_of_the_key(monkeypatch):
    base = {"options": "o", "passes": "p", "level": 2, "python_tag": "t"}
    target = host()
    keys = [cache_key("text", target, **base), cache_key("texu", target, **base)]
    for name, value in {"options": "O", "passes": "P", "level": 1, "python_tag": "T"}.items():
        keys.append(cache_key("text", target, **{**base, name: value}))
    for name, value in {"triple": "x", "cpu": "x", "features": "x", "vector_bits": 64}.items():
        keys.append(cache_key("text", replace(target, **{name: value}), **base))
    keys.append(cache_key("text", replace(target, has_fma=not target.has_fma), **base))
    keys.append(cache_key("text", replace(target, caches=replace(target.caches, second=1)), **base))
    keys.append(cache_key("texto", target, **{**base, "options": ""}))
    for name, value in {
        "ABI_VERSION": 99, "toolchain_version": lambda: "other", "source_digest": lambda: "other",
    }.items():  # fmt: skip
        with monkeypatch.context() as m:
            m.setattr(cache_module, name, value)
            keys.append(cache_key("text", target, **base))
    assert len(set(keys)) == len(keys)
    assert cache_key("text", target, **base) == keys[0]


def test_the_source_digest_is_the_same_in_every_process():
    code = "from broadloom.runtime.cache import source_digest; print(source_digest())"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert out.stdout.strip() == source_digest()
