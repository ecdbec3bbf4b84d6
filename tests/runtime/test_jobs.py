"""Jobs from their first state to their last, in virtual time."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from jobs_kit import ENDPOINT, Asked, House, TestLines, text_of

from penstock.adapters.job_store.directory import DirectoryStore
from penstock.core.job_restraint import RestraintRules
from penstock.errors import Conflict, NotFound, Overloaded, OverQuota, TooLarge, Unacceptable
from penstock.jobs import Job, JobStatus, Said, Slack
from penstock.runtime.jobs.shelf import JobBounds
from penstock.testing import run_virtual


def ids(lines: Sequence[bytes]) -> list[str]:
    return [msgspec.json.decode(line)["custom_id"] for line in lines]


def test_each_line_is_answered_once_and_written_where_it_belongs(tmp_path: Path) -> None:
    def says(asked: Asked) -> Said:
        return Said(400, b"{\n}", "UNACCEPTABLE") if asked.body == b'{"input":"3"}' else Said(200, b"[\r\n1]")

    async def body() -> None:
        async with House(tmp_path, TestLines(says=says)).open() as house:
            job = await house.over(await house.job(50))
            assert (job.status, job.completed, job.failed) == (JobStatus.COMPLETED, 49, 1)
            good, wrong = await house.read(job.output_file), await house.read(job.error_file)
            assert sorted(ids(good)) == sorted(f"c{n}" for n in range(50) if n != 3)
            assert ids(wrong) == ["c3"]

    run_virtual(body())


def test_few_lines_are_in_flight_and_tenants_take_turns(tmp_path: Path) -> None:
    async def body() -> None:
        lines = TestLines()
        async with House(tmp_path, lines, rules=RestraintRules(in_flight=4)).open() as house:
            jobs = [await house.job(40, "a"), await house.job(40, "a"), await house.job(40, "b")]
            await asyncio.sleep(10.5)
            count = Counter(
                house.service.find_job(tenant, job.id).tenant
                for asked in lines.asked
                for tenant, job in zip("aab", jobs, strict=True)
                if asked.name.startswith(f"batch_req_{job.id.removeprefix('batch_')}")
            )
            assert 36 <= len(lines.asked) <= 44
            assert abs(count["a"] - count["b"]) <= 4
            for tenant, job in zip("aab", jobs, strict=True):
                assert (await house.over(job, tenant)).completed == 40

    run_virtual(body())


def test_a_line_that_is_refused_is_asked_again_later(tmp_path: Path) -> None:
    times: list[float] = []

    def says(asked: Asked) -> Said:
        times.append(asyncio.get_running_loop().time())
        return Said(503, b"{}", "SERVICE_OVERLOADED", 20.0) if len(times) <= 2 else Said(200, b"1")

    async def body() -> None:
        async with House(tmp_path, TestLines(says=says)).open() as house:
            job = await house.over(await house.job(1))
            assert (job.completed, job.failed) == (1, 0)
            assert times[1] - times[0] >= 20.0
            assert times[2] - times[1] >= 20.0

    run_virtual(body())


def test_a_line_that_is_never_answered_in_time_fails_after_a_few_tries(tmp_path: Path) -> None:
    async def body() -> None:
        lines = TestLines(says=lambda asked: Said(504, b"{}", "DEADLINE_EXCEEDED"))
        async with House(tmp_path, lines).open() as house:
            job = await house.over(await house.job(1))
            assert (job.status, job.failed, len(lines.asked)) == (JobStatus.COMPLETED, 1, 5)

    run_virtual(body())


def test_a_model_that_is_not_known_yet_is_waited_for_only_at_the_start(tmp_path: Path) -> None:
    async def body() -> None:
        known = False
        lines = TestLines(refuses=lambda body: None if known else Said(404, b"{}", "NOT_FOUND"))
        async with House(tmp_path, lines).open() as house:
            early = await house.job(1)
            await asyncio.sleep(5.0)
            known = True
            assert (await house.over(early)).completed == 1
            known = False
            await asyncio.sleep(20.0)
            assert (await house.over(await house.job(1))).failed == 1

    run_virtual(body())


def test_nothing_is_asked_while_no_worker_is_idle(tmp_path: Path) -> None:
    async def body() -> None:
        idle = 1
        lines = TestLines()
        async with House(tmp_path, lines, slack=lambda model: Slack(0, idle, 4)).open() as house:
            job = await house.job(10)
            await asyncio.sleep(100.0)
            assert lines.asked == []
            idle = 2
            assert (await house.over(job)).completed == 10

    run_virtual(body())


def test_a_job_whose_time_is_over_says_what_was_not_run(tmp_path: Path) -> None:
    async def body() -> None:
        bounds = JobBounds(window=10.0)
        async with House(tmp_path, TestLines(), bounds, rules=RestraintRules(in_flight=1)).open() as house:
            job = await house.over(await house.job(30))
            assert job.status is JobStatus.EXPIRED
            good, wrong = await house.read(job.output_file), await house.read(job.error_file)
            assert 8 <= len(good) <= 11
            assert sorted(ids(good) + ids(wrong)) == sorted(f"c{n}" for n in range(30))
            assert b'"code":"batch_expired"' in wrong[0]
            assert job.completed + job.failed == 30

    run_virtual(body())


def test_a_cancelled_job_withdraws_what_is_in_flight_and_keeps_what_it_has(tmp_path: Path) -> None:
    async def body() -> None:
        lines = TestLines()
        async with House(tmp_path, lines).open() as house:
            job = await house.job(100)
            await asyncio.sleep(2.5)
            assert (await house.service.cancel("t", job.id)).status is JobStatus.CANCELLING
            ended = await house.over(job)
            assert ended.status is JobStatus.CANCELLED
            assert len(await house.read(ended.output_file)) == ended.completed > 0
            assert any(asked.has_left for asked in lines.asked)
            with pytest.raises(Conflict):
                await house.service.cancel("t", job.id)
            later = await house.over(await house.job(20))
            assert later.completed == 20, "what was withdrawn is not counted as in flight"

    run_virtual(body())


def test_jobs_that_wait_for_their_turn_can_be_cancelled_and_are_bounded(tmp_path: Path) -> None:
    async def body() -> None:
        bounds = JobBounds(max_jobs=12, share=0.9)
        async with House(tmp_path, TestLines(seconds=1000.0), bounds).open() as house:
            jobs = [await house.job(3) for _ in range(10)]
            await asyncio.sleep(1.0)
            assert (await house.service.cancel("t", jobs[9].id)).status is JobStatus.CANCELLING
            jobs.append(await house.job(1))
            with pytest.raises(OverQuota):
                await house.job(1)
            jobs.append(await house.job(1, "other"))
            with pytest.raises(Overloaded):
                await house.job(1, "other")

    run_virtual(body())


def test_a_job_goes_on_where_it_was_in_another_process(tmp_path: Path) -> None:
    async def body() -> None:
        first, second = TestLines(), TestLines()
        async with House(tmp_path, first).open() as house:
            job = await house.job(60)
            await asyncio.sleep(3.5)
        async with House(tmp_path, second).open() as house:
            ended = await house.over(job)
            assert (ended.status, ended.completed) == (JobStatus.COMPLETED, 60)
            assert sorted(ids(await house.read(ended.output_file))) == sorted(f"c{n}" for n in range(60))
            assert 60 <= len(first.asked) + len(second.asked) <= 60 + 8

    run_virtual(body())


class Dying(DirectoryStore):
    """A disk that fails at the so-manieth deed of one kind, and from then on."""

    def __init__(self, root: Path, deed: str, after: int = 0) -> None:
        super().__init__(root)
        self._deed, self.left, self.failed = deed, after, 0

    def _fail(self, deed: str) -> None:
        if deed == self._deed:
            self.left -= 1
            if self.left < 0:
                self.failed += 1
                raise OSError("no space left")

    def append(self, job: Job, lines: Sequence[bytes], *, good: bool) -> None:
        self._fail("append")
        super().append(job, lines, good=good)

    def save(self, job: Job) -> None:
        self._fail(f"save {job.status.value}")
        super().save(job)


@pytest.mark.parametrize("deed", ["append", "save in_progress", "save finalizing", "save completed"])
def test_a_disk_that_fails_for_a_while_costs_no_answer_and_doubles_none(deed: str, tmp_path: Path) -> None:
    async def body() -> None:
        store = Dying(tmp_path, deed)
        async with House(tmp_path, TestLines(), store=store).open() as house:
            job = await house.job(20)
            await asyncio.sleep(60.0)
            assert not house.service.find_job("t", job.id).is_over
            assert store.failed
            store.left = 10**9
            ended = await house.over(job)
            assert sorted(ids(await house.read(ended.output_file))) == sorted(f"c{n}" for n in range(20))
            assert ended.error_file is None

    run_virtual(body())


def test_a_runner_that_stops_goes_on_with_its_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> None:
        async with House(tmp_path, TestLines()).open() as house:
            job = await house.job(40)
            await asyncio.sleep(2.5)
            with monkeypatch.context() as patched:
                patched.setattr(house.service.runner, "_ask_lines", lambda: 1 // 0)
                house.service.runner.look()
                await asyncio.sleep(1.0)
            ended = await house.over(job)
            assert (ended.status, ended.completed) == (JobStatus.COMPLETED, 40)
            assert sorted(ids(await house.read(ended.output_file))) == sorted(f"c{n}" for n in range(40))

    run_virtual(body())


def test_a_job_that_stopped_can_be_cancelled_while_it_rests(tmp_path: Path) -> None:
    async def body() -> None:
        store = Dying(tmp_path, "save finalizing")
        async with House(tmp_path, TestLines(), store=store).open() as house:
            job = await house.job(3)
            await asyncio.sleep(5.0)
            assert store.failed == 1
            await house.service.cancel("t", job.id)
            assert (await house.over(job)).status is JobStatus.CANCELLED

    run_virtual(body())


def test_a_process_that_dies_while_it_makes_the_files_makes_them_in_its_next_life(tmp_path: Path) -> None:
    async def body() -> None:
        async with House(tmp_path, TestLines(), store=Dying(tmp_path, "save completed")).open() as house:
            job = await house.job(20)
            await asyncio.sleep(30.0)
        async with House(tmp_path, TestLines()).open() as house:
            ended = await house.over(job)
            assert (ended.status, ended.completed, ended.failed) == (JobStatus.COMPLETED, 20, 0)
            assert len(await house.read(ended.output_file)) == 20

    run_virtual(body())


def test_files_are_bounded_for_all_and_for_each_tenant(tmp_path: Path) -> None:
    async def body() -> None:
        bounds = JobBounds(max_file=100, max_bytes=300, max_files=6, share=0.5)
        async with House(tmp_path, TestLines(), bounds).open() as house:
            upload = house.service.upload
            with pytest.raises(TooLarge):
                await upload("a", "f", [b"x" * 101], None)
            first = await upload("a", "f", [b"x" * 100], None)
            with pytest.raises(OverQuota, match="take too much"):
                await upload("a", "f", [b"x" * 51], None)
            await upload("b", "f", [b"x" * 100], None)
            await upload("c", "f", [b"x" * 50, b"x" * 50], None)
            with pytest.raises(Overloaded, match="max_bytes"):
                await upload("d", "f", [b"x"], None)
            for _ in range(2):
                await upload("a", "f", [b""], None)
            with pytest.raises(OverQuota, match="too many files"):
                await upload("a", "f", [b""], None)
            await house.service.remove("a", first.id)
            with pytest.raises(NotFound):
                house.service.find_file("a", first.id)

    run_virtual(body())


def test_a_job_whose_tenant_has_no_room_left_waits(tmp_path: Path) -> None:
    async def body() -> None:
        bounds = JobBounds(max_bytes=60_000, share=1.0)
        lines = TestLines(says=lambda asked: Said(200, b'"' + b"x" * 2000 + b'"'))
        async with House(tmp_path, lines, bounds).open() as house:
            filler = await house.service.upload("t", "f", [b"x" * 50_000], None)
            job = await house.job(20)
            await asyncio.sleep(200.0)
            so_far = house.service.find_job("t", job.id)
            assert so_far.status is JobStatus.IN_PROGRESS
            assert 0 < so_far.completed < 20
            await house.service.remove("t", filler.id)
            await asyncio.sleep(100.0)
            assert house.service.find_job("t", job.id).completed > so_far.completed

    run_virtual(body())


def test_files_and_jobs_are_forgotten_when_their_time_is_over(tmp_path: Path) -> None:
    async def body() -> None:
        bounds = JobBounds(keep=1000.0)
        async with House(tmp_path, TestLines(), bounds).open() as house:
            job = await house.over(await house.job(5))
            assert len(house.service.files("t")) == 2
            await asyncio.sleep(2000.0)
            assert house.service.files("t") == []
            assert house.service.jobs("t") == []
            with pytest.raises(NotFound):
                house.service.find_job("t", job.id)

    run_virtual(body())
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["lock"]


def test_a_file_that_a_job_reads_stays(tmp_path: Path) -> None:
    async def body() -> None:
        async with House(tmp_path, TestLines(seconds=50.0), JobBounds(keep=100.0)).open() as house:
            job = await house.job(20)
            await asyncio.sleep(110.0)
            with pytest.raises(Conflict):
                await house.service.remove("t", job.input_file)
            assert (await house.over(job)).completed == 20
            output = house.service.find_job("t", job.id).output_file or ""
            with pytest.raises(Unacceptable):
                await house.service.create("t", None, ENDPOINT, output, None)

    run_virtual(body())


def test_a_file_without_a_newline_at_its_end_and_with_empty_lines_is_read_in_full(tmp_path: Path) -> None:
    async def body() -> None:
        async with House(tmp_path, TestLines()).open() as house:
            text = b"\n\n" + text_of(3).replace(b"\n", b"\r\n\r\n").rstrip()
            assert (await house.over(await house.job_of(text))).completed == 3

    run_virtual(body())


def test_a_line_that_is_too_long_is_told(tmp_path: Path) -> None:
    async def body() -> None:
        async with House(tmp_path, TestLines(), JobBounds(max_line=1000)).open() as house:
            job = await house.over(await house.job_of(text_of(1) + b"x" * 200_000 + b"\n" + text_of(1)))
            assert job.status is JobStatus.FAILED
            assert [(each.line, each.code) for each in job.mistakes] == [
                (2, "line_too_large"), (3, "duplicate_custom_id"),
            ]  # fmt: skip

    run_virtual(body())
