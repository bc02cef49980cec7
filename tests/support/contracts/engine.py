"""What a launched job does on every engine, as test classes: inherit one to run it."""

import os
import re
import secrets
import signal
import time

import pytest

from tests.support.deadlines import within
from tests.support.launches import PROMISED_S, Launches, read


class EngineContract:
    """What happens when something ends, with the same words, exit codes and logs on every engine.

    The module of the subclass has a fixture `launches`, which gives `Launches` of the engine.
    """

    def test_a_job_ends_well(self, launches: Launches) -> None:
        code, out, err = launches.run("nothing", more="trainers = 2")
        assert code == 0, err
        assert [line.split(" reads")[0] for line in launches.printed(out, err)] == ["rank 0 of 4"]
        found = [log for log in (launches.out / "logs").glob("*.log") if not log.name.startswith(launches.own_logs)]
        logs = {log.name: log.read_text() for log in found}
        first, second = launches.names
        assert set(logs) == {f"{host}-rank-{rank}.log" for rank, host in enumerate((first, first, second, second))}
        assert all(f"rank {name[-5]} of 4 reads" in text for name, text in logs.items())
        assert (launches.out / "plan.json").exists()
        assert launches.gone_within(1) == []

    @pytest.mark.parametrize(
        ("what", "how", "last"),
        [
            ("fail", "failed with exit code 1", "LookupError: no such luck"),
            pytest.param("die", "was killed by SIGKILL", "rank 1 of 2 reads", marks=pytest.mark.full),
        ],
    )
    def test_the_first_failure_is_named(self, launches: Launches, what: str, how: str, last: str) -> None:
        code, _, err = launches.run(what, 1)
        first, second = launches.names
        log = launches.out / "logs" / f"{second}-rank-1.log"
        assert code == 1
        assert re.search(rf"^error: rank 1 \({second}, process \d+\) {how}; the end of {log}:$", err, re.MULTILINE), err
        lines = err[err.index("error: ") :].splitlines()[1:]
        assert last in "\n".join(lines)
        assert re.fullmatch(rf" *then the launcher ended rank 0 \({first}, process \d+\)", lines[-1])
        assert launches.gone_within() == []

    def test_an_error_of_the_users_is_the_jobs(self, launches: Launches) -> None:
        code, _, err = launches.run("refuse", 1)
        assert code == 2
        assert re.fullmatch(r"error: lr.0 must be over 0", err.splitlines()[-1])

    def test_a_rank_that_is_stopped_ends_the_job_after_the_time_of_a_step(self, launches: Launches) -> None:
        code, _, err = launches.run("hang", 1, more="stall = 2")
        assert code == 1
        place = rf"rank 1 \({launches.names[1]}, process \d+\)"
        assert re.search(f"error: {place} failed: it has made no step for 2 s, and is stopped", err), err
        assert launches.gone_within() == []

    def test_a_second_job_in_the_run_folder_is_refused(self, launches: Launches) -> None:
        first = launches.start("wait", launches.folder)
        launches.until_training(first, 2)
        code, _, err = launches.run("nothing")
        assert (code, f"another launch is running in {launches.out}" in err) == (2, True), err
        first.send_signal(signal.SIGINT)
        assert launches.ended(first)[0] == 130

    def test_the_token_is_in_no_command_line_plan_or_log(self, launches: Launches) -> None:
        token = launches.folder / "token"
        token.write_text(secrets.token_hex(32))
        token.chmod(0o600)
        more = f"token_file = '{token}'\n[servers]\ncount = 2\nport = {launches.server_port()}"
        launcher = launches.start("until", launches.folder, more=more)
        launches.until_training(launcher, 2)
        secret = token.read_bytes()
        for number in [launcher.pid, *launches.processes()]:
            assert secret not in read(number, "cmdline")
        assert all(secret in read(number, "environ") for number in launches.ranks().values())
        (launches.folder / "over").touch()
        code, out, err = launches.ended(launcher)
        assert code == 0, err
        assert secret.decode() not in out + err
        files = [file for file in launches.out.rglob("*") if file.is_file()]
        assert len(files) >= 5
        assert all(secret not in file.read_bytes() for file in files)


class AttachedContract(EngineContract):
    """Of engines whose processes end with the launcher."""

    @pytest.mark.parametrize("replicas", [1, 2])
    def test_a_killed_server_ends_the_job_unless_another_holds_its_partitions(self, launches: Launches, replicas: int) -> None:
        more = f"[servers]\ncount = 2\nreplicas = {replicas}\nport = {launches.server_port()}"
        launcher = launches.start("until", launches.folder, more=more)
        launches.until_training(launcher, 2)
        os.kill(launches.server(1), signal.SIGKILL)
        if replicas == 1:
            code, _, err = launches.ended(launcher)
            assert code == 1
            assert re.search(rf"error: server 1 \({launches.names[1]}, process \d+\) was killed by SIGKILL; the end of", err), err
        else:
            assert launcher.stderr is not None
            assert any("others stand in for it" in line for line in launcher.stderr)  # or the launcher has ended
            (launches.folder / "over").touch()
            code, _, err = launches.ended(launcher)
            assert code == 0, err
        assert launches.gone_within() == []

    @pytest.mark.parametrize("who", ["launcher", "ranks"])
    def test_a_request_to_terminate_leaves_a_state_to_resume_from(self, launches: Launches, who: str) -> None:
        launcher = launches.start("save", launches.folder)
        launches.until_training(launcher, 2)
        for number in [launcher.pid] if who == "launcher" else launches.ranks().values():
            os.kill(number, signal.SIGTERM)
        code, _, err = launches.ended(launcher)
        assert code == 75, err
        assert launches.gone_within() == []

    @pytest.mark.parametrize(
        "kind",
        [
            pytest.param(signal.SIGINT, marks=pytest.mark.full),
            signal.SIGTERM,
            pytest.param(signal.SIGHUP, marks=pytest.mark.full),
        ],
    )
    def test_a_launcher_that_is_asked_to_end_ends_all(self, launches: Launches, kind: signal.Signals) -> None:
        launcher = launches.start("wait", launches.folder)
        launches.until_training(launcher, 2)
        launcher.send_signal(kind)
        code, _, err = launches.ended(launcher)
        assert code == 128 + kind, err
        assert "Traceback" not in err
        assert launches.gone_within(2) == []

    def test_a_launcher_that_is_killed_leaves_nothing(self, launches: Launches) -> None:
        launcher = launches.start("wait", launches.folder, more=f"[servers]\ncount = 2\nport = {launches.server_port()}")
        launches.until_training(launcher, 2)
        begin = time.monotonic()
        launches.kill(launcher)
        assert launches.gone_within() == []
        assert time.monotonic() - begin < within(PROMISED_S)

    def test_a_port_in_use_is_named_before_anything_starts(self, launches: Launches) -> None:
        port = launches.server_port()
        with launches.listening(port):
            code, _, err = launches.run("nothing", more=f"[servers]\ncount = 2\nport = {port}")
        assert code == 2
        assert f"{port}" in err
        assert "Address already in use" in err
        assert not [*(launches.out / "logs").glob("*rank*")]
