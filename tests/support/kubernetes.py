"""Manifests read as Kubernetes reads them: the pods that it would start, with their command lines and environments."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """What a container runs, all variables replaced, in a folder of its own or, if that is empty, of the image."""

    name: str
    folder: str
    argv: tuple[str, ...]
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod by its place among its like.

    Args:
        name: by which the others find it.
        before: containers that end before the main one starts.
        main: the main one.
        spec: of the pod.
    """

    name: str
    before: tuple[Container, ...]
    main: Container
    spec: Mapping[str, Any]


def objects_of(text: str) -> dict[str, Any]:
    """The objects of manifests, by "Kind/name"."""
    objects = [each for each in yaml.safe_load_all(text) if each is not None]
    found = {f"{each['kind']}/{each['metadata']['name']}": each for each in objects}
    assert len(found) == len(objects)
    return found


def pods_of(text: str, secrets: Mapping[str, str]) -> list[Pod]:
    """The pods of all StatefulSets and Indexed Jobs of manifests.

    Args:
        text: the manifests.
        secrets: values by "NAME/KEY".
    """
    found = []
    for each in objects_of(text).values():
        spec, name = each["spec"], each["metadata"]["name"]
        if each["kind"] == "StatefulSet":
            count, domain, index = spec["replicas"], spec["serviceName"], {}
        elif each["kind"] == "Job":
            assert spec["completionMode"] == "Indexed"
            count, domain = spec["completions"], spec["template"]["spec"]["subdomain"]
            index = {"JOB_COMPLETION_INDEX": ""}
        else:
            continue
        for number in range(count):
            own = dict.fromkeys(index, str(number))
            inner = spec["template"]["spec"]
            before, (main,) = inner.get("initContainers", []), inner["containers"]
            uid = each["metadata"].get("uid", "")
            made = [_container(container, number, own, uid, secrets) for container in (*before, main)]
            found.append(Pod(name=f"{name}-{number}.{domain}", before=tuple(made[:-1]), main=made[-1], spec=inner))
    return found


def expanded(text: str, env: Mapping[str, str]) -> str:
    """A text with ``$(NAME)`` replaced; ``$$`` is ``$``, and what is not known stays: as the reference of the API says."""
    made, place = [], 0
    while place < len(text):
        letter = text[place]
        if letter == "$" and text[place + 1 : place + 2] == "$":
            made.append("$")
            place += 2
        elif letter == "$" and text[place + 1 : place + 2] == "(" and ")" in text[place:]:
            end = text.index(")", place)
            name = text[place + 2 : end]
            made.append(env.get(name, text[place : end + 1]))
            place = end + 1
        else:
            made.append(letter)
            place += 1
    return "".join(made)


def _container(container: Any, number: int, own: Mapping[str, str], uid: str, secrets: Mapping[str, str]) -> Container:
    env = dict(own)
    for each in container["env"]:
        source = each.get("valueFrom", {})
        if "secretKeyRef" in source:
            env[each["name"]] = secrets[f"{source['secretKeyRef']['name']}/{source['secretKeyRef']['key']}"]
        elif "fieldRef" in source:
            fields = {"apps.kubernetes.io/pod-index": str(number), "batch.kubernetes.io/controller-uid": uid}
            env[each["name"]] = fields[source["fieldRef"]["fieldPath"].removeprefix("metadata.labels['").removesuffix("']")]
        else:
            assert isinstance(each["value"], str)
            env[each["name"]] = expanded(each["value"], env)
    words = [*container["command"], *container["args"]]
    assert all(isinstance(word, str) for word in words)
    folder = container.get("workingDir", "")
    return Container(name=container["name"], folder=folder, argv=tuple(expanded(word, env) for word in words), env=env)
