import pytest

from halohop.errors import InputError
from halohop.launch.jobs.k8s.options import Options
from halohop.launch.jobs.tables import convert

GOOD = {"image": "halohop", "secret": "token"}


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"image": ""}, "image='' is no image of a container; give one like"),
        ({"image": "a b"}, "image='a b' is no image"),
        ({"command": " "}, "command is empty; give kubectl"),
        ({"deadline-seconds": 0}, "deadline_seconds=0 must be at least 1"),
        ({"ttl-seconds": 0}, "ttl_seconds=0 must be at least 1"),
        ({"secret": "Token"}, "secret='Token' is no name of an object"),
        ({"secret": "a" * 254}, "is no name of an object"),
        ({"claim": "a_b"}, "claim='a_b' is no name of an object"),
        ({"env_secrets": ["a", "-b"]}, "env_secrets='-b' is no name of an object"),
        ({"namespace": "a.b"}, "namespace='a.b' must have at most 63 small letters, digits and '-'"),
        ({"namespace": "a" * 64}, "must have at most 63"),
        ({"mount": "shared"}, "mount='shared' must be a path of its own in the pods, such as /shared"),
        ({"mount": "/"}, "mount='/' must be a path of its own"),
        ({"mount": "/a/../b"}, "must be a path of its own"),
        ({"memory": "16 GB"}, "memory='16 GB' is no quantity of Kubernetes; give one like 4, 500m or 16Gi"),
        ({"cpu": 0}, "cpu=0 is no quantity"),
        ({"cpu": True}, "cpu must be a number or a whole number or text, got true or false|cpu=True is no quantity"),
        ({"gpus": -1}, "gpus=-1 must be at least 0"),
        ({"user": 0}, "user=0 must be at least 1"),
        ({"retries": -1}, "retries=-1 must be at least 0"),
        ({"labels": {"a b": "c"}}, "labels: 'a b' is no key of Kubernetes; it is like team or example.org/team"),
        ({"labels": {"team": "a/b"}}, "labels: team='a/b' is no value of a label"),
        ({"node_selector": {"team": "a" * 64}}, "node_selector: team='a+' is no value of a label"),
        ({"annotations": {"-": "c"}}, "annotations: '-' is no key"),
        ({"labels": {"team": 3}}, "must be text, got a whole number"),
        ({"imag": "x"}, "unknown key 'imag'; did you mean 'image'"),
    ],
)
def test_what_kubernetes_would_refuse_is_named(given, complaint):
    with pytest.raises(InputError, match=complaint):
        convert(GOOD | given, Options, "job.toml: [k8s]")


def test_an_image_is_needed():
    with pytest.raises(InputError, match=r"job.toml: \[k8s\]: .*image"):
        convert({"secret": "token"}, Options, "job.toml: [k8s]")


def test_quantities_may_be_numbers():
    made = convert(GOOD | {"cpu": 0.5, "memory": "1.5Gi", "server-cpu": 3}, Options, "[k8s]")
    assert (made.cpu, made.memory, made.server_cpu) == (0.5, "1.5Gi", 3)
