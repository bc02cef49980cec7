"""Trainers in Kubernetes: an Indexed Job, whose pods run torchrun, and a headless Service, by which they find the first."""

from halohop.launch.jobs.k8s.pods import Object, Pods, headless, resources
from halohop.launch.jobs.plan import Plan, resumes_itself, torchrun
from halohop.recipes.stopping import EXIT_RESUMABLE

INDEX = "JOB_COMPLETION_INDEX"
"""The environment variable that Kubernetes gives a pod of an Indexed Job."""

_TERMINATED = 128 + 15
_GRACE_S = 60  # torchrun gives its ranks half of it
_FAILURES = 6  # of pods that did not come to train


def training(pods: Pods, made: Plan, name: str) -> list[Object]:
    """The objects of a job's trainers."""
    setting, options, part = pods.setting, pods.setting.options, pods.part
    of_each = [_agent(torchrun(process, made), made, options.start_seconds) for process in pods.processes]
    port = {"name": "master", "containerPort": made.job.master_port}
    main = pods.container(
        part,
        pods.words(of_each),
        ports=[port],
        resources=resources(options.cpu, options.memory, **({options.gpu_resource: options.gpus} if options.gpus else {})),
    )
    before = []
    if made.servers:
        graph = ",".join(server.address for server in made.servers)
        seconds = str(options.start_seconds)
        before.append(pods.container("servers", pods.words([("-m", "halohop", "health", graph, "--seconds", seconds)])))
    template = pods.template(main, before=before, restartPolicy="Never", subdomain=name, terminationGracePeriodSeconds=_GRACE_S)
    return [
        headless(pods, name, {"master": made.job.master_port}),
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": setting.metadata(name, part),
            "spec": {
                "completionMode": "Indexed",
                "completions": len(pods.processes),
                "parallelism": len(pods.processes),
                "backoffLimit": options.retries or _FAILURES,
                "podFailurePolicy": {"rules": _rules(part, options.retries)},
                "template": template,
            },
        },
    ]


def _agent(words: tuple[str, ...], made: Plan, start_seconds: int) -> tuple[str, ...]:
    """torchrun's words for the pod's agent, which waits for the other pods as long as they may take to start."""
    _, _, *rest = words
    resume = ("--resume", "auto") if resumes_itself(made.job) else ()
    return ("-m", "halohop.launch.jobs.k8s.agent", f"--rdzv-conf=timeout={start_seconds}", *rest, *resume)


def _rules(container: str, retries: int) -> list[Object]:
    """What a pod's end means: one that was asked to end is replaced; trainers that failed have failed, unless they may again."""
    asked = sorted((EXIT_RESUMABLE, _TERMINATED))
    rules: list[Object] = [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "Ignore", "onExitCodes": {"containerName": container, "operator": "In", "values": asked}},
    ]
    if not retries:
        rules.append({"action": "FailJob", "onExitCodes": {"containerName": container, "operator": "NotIn", "values": asked}})
    return rules
