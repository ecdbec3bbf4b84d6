"""The directory of files and jobs: private, whole, and found again after a death at any moment."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from penstock.adapters.job_store.directory import DirectoryStore
from penstock.errors import UserMistake
from penstock.jobs import MADE, UPLOADED, Job, JobStatus, StoredFile, line_name

JOB = Job(
    id="batch_" + "a" * 24, tenant="t", endpoint="/v1/embeddings", input_file="file-" + "0" * 24, created=0,
    expires=10, status=JobStatus.IN_PROGRESS,
)  # fmt: skip
OUTPUT = StoredFile(
    id="file-" + "b" * 24, tenant="t", name="out.jsonl", purpose=MADE, size=0, created=1, expires=99
)
FILE = StoredFile(
    id="file-" + "0" * 24, tenant="t", name="in.jsonl", purpose=UPLOADED, size=6, created=0, expires=99
)


def line(index: int) -> bytes:
    return f'{{"id":"{line_name(JOB.id, index)}","custom_id":"c{index}"}}\n'.encode()


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    store = DirectoryStore(tmp_path / "a" / "b")
    assert store.open() == ([], [])
    return store


def again(store: DirectoryStore, tmp_path: Path) -> tuple[DirectoryStore, list[StoredFile], list[Job]]:
    """The same directory in another process."""
    store.close()
    other = DirectoryStore(tmp_path / "a" / "b")
    files, jobs = other.open()
    return other, list(files), list(jobs)


def test_all_of_it_is_found_again_and_private(store: DirectoryStore, tmp_path: Path) -> None:
    store.write(FILE, [b"one", b"two"])
    store.save(JOB)
    store.append(JOB, [line(0)], good=True)
    other, files, jobs = again(store, tmp_path)
    assert (files, jobs) == ([FILE], [JOB])
    assert other.read(FILE.id, 2, 3) == b"etw"
    assert other.read(FILE.id, 6, 3) == b""
    modes = {path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert modes == {0o600, 0o700}
    other.remove(FILE.id)
    other.remove(FILE.id)
    other.forget(JOB)
    _, files, jobs = again(other, tmp_path)
    assert (files, jobs) == ([], [])
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["lock"]


def test_a_line_that_was_cut_short_is_taken_back(store: DirectoryStore, tmp_path: Path) -> None:
    store.save(JOB)
    store.append(JOB, [line(0), line(2)], good=True)
    store.append(JOB, [line(1)], good=False)
    with (tmp_path / "a/b/jobs" / f"{JOB.id}.output").open("ab") as file:
        file.write(line(3)[:-5])
    found = store.progress(JOB)
    assert (found.answered, found.completed, found.failed) == ({0, 1, 2}, 2, 1)
    assert found.written == len(line(0) * 3)
    store.append(JOB, [line(3)], good=True)
    assert store.progress(JOB).answered == {0, 1, 2, 3}
    assert store.publish(JOB, OUTPUT, good=True) == len(line(0)) * 3
    assert store.read(OUTPUT.id, 0, 1000) == line(0) + line(2) + line(3)


def test_what_was_made_of_a_job_is_made_once(store: DirectoryStore, tmp_path: Path) -> None:
    store.save(replace(JOB, output_file=OUTPUT.id))
    store.append(JOB, [line(0)], good=True)
    assert store.publish(JOB, OUTPUT, good=True) == len(line(0))
    (tmp_path / "a/b/files" / f"{OUTPUT.id}.json").unlink()  # it died between the two
    other, files, _ = again(store, tmp_path)
    assert files == []
    assert other.publish(JOB, OUTPUT, good=True) == len(line(0))
    assert other.publish(JOB, replace(OUTPUT, id="file-" + "c" * 24), good=False) is None
    _, files, _ = again(other, tmp_path)
    assert [(file.id, file.size) for file in files] == [(OUTPUT.id, len(line(0)))]


def test_what_was_left_half_done_is_swept_away(store: DirectoryStore, tmp_path: Path) -> None:
    folder = tmp_path / "a/b/files"
    (folder / f"{OUTPUT.id}.jsonl").write_bytes(b"content without a record")
    (folder / f"{FILE.id}.new").write_bytes(b"{")
    (tmp_path / "a/b/jobs/batch_old.output").write_bytes(b"")
    other, files, jobs = again(store, tmp_path)
    assert (files, jobs) == ([], [])
    assert list(folder.iterdir()) == []
    (folder / "file-strange.json").write_bytes(b"{")
    again(other, tmp_path)
    assert [path.name for path in folder.iterdir()] == ["file-strange.unreadable"]


def test_a_disk_that_takes_half_a_file_has_none_of_it(store: DirectoryStore, tmp_path: Path) -> None:
    def pieces() -> list[bytes]:
        return [b"x", 1]  # type: ignore[list-item]

    with pytest.raises(TypeError):
        store.write(FILE, pieces())
    _, files, _ = again(store, tmp_path)
    assert files == []


def test_one_process_has_the_directory(store: DirectoryStore, tmp_path: Path) -> None:
    with pytest.raises(UserMistake, match="another process has the directory"):
        DirectoryStore(tmp_path / "a" / "b").open()
    (tmp_path / "file").write_text("")
    with pytest.raises(UserMistake, match=r"files\.directory"):
        DirectoryStore(tmp_path / "file" / "x").open()


@pytest.mark.parametrize("name", ["../x", "file-../../x", "batch_", ""])
def test_nothing_but_an_id_becomes_a_path(store: DirectoryStore, name: str) -> None:
    with pytest.raises(AssertionError):
        store.read(name, 0, 1)
