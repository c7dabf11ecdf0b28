"""Tasks on a Ray cluster or on processes of this machine: in order, in bounded memory, retried if a worker dies."""

from __future__ import annotations

import os
import re
import socket
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import islice
from typing import Any, TypeVar

from mallow._checks import positive, whole
from mallow._optional import optional
from mallow.engine._same_bits import one_core, single_threaded_blas
from mallow.errors import InputError

Task = TypeVar("Task")
Result = TypeVar("Result")

_WAIT = 4.0  # seconds for each of three steps in which a cluster must answer; with Ray's own time, 15 in all
_CHECK = "/ray.rpc.NodeInfoGcsService/CheckAlive"  # what the head of a cluster answers
_AHEAD = 2  # results per processor that wait to be consumed; chosen: no processor is idle meanwhile
_DISK_FULL = (
    "the disk of a machine of the cluster is full, so that Ray cannot put aside what does not fit its memory. Free "
    "some space, or set Ray's object_spilling_directory to a larger disk. What is done stays in the checkpoint."
)
_LEAST_STORE = 80_000_000  # bytes; Ray refuses less than 75 MiB


@dataclass(frozen=True)
class Ray:
    """A Ray cluster, or Ray's processes on this machine.

    Parameters
    ----------
    address : str or None
        The address of a running cluster: "ray://host:10001" (from outside), "host:6379" or "auto" (on a machine of
        the cluster). "local" starts Ray on this machine. None is the cluster in RAY_ADDRESS or, without one, "local".
    cpus : float
        Processors that one task takes.
    gpus : float
        GPUs that one task takes; parts of a GPU such as 0.25 are possible.
    workers : int or None
        The largest number of tasks at once. None: as many as fit. If Ray is started here, also its number of
        processors.
    retries : int
        How often a task is tried again if its worker or its machine dies.
    store : int or None
        Bytes of shared memory for objects if Ray is started here. Objects that do not fit go to the disk.
    checkpoint : str or None
        A folder of this process for the progress of long work. After an interruption, the same call continues from
        there.
    runtime_env : dict
        What workers need, as in ``ray.init``: for example ``{"pip": ["mallow[ray]"]}``.

    Notes
    -----
    Ray's usage statistics are switched off. If Ray is started here, it listens on 127.0.0.1 only. A session of
    Ray that the program started itself is used as it is and left open.

    Examples
    --------
    >>> Ray(address="ray://head:10001", gpus=0.5).name
    'ray'
    """

    address: str | None = None
    cpus: float = 1
    gpus: float = 0
    workers: int | None = None
    retries: int = 5
    store: int | None = None
    checkpoint: str | None = None
    runtime_env: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        positive("cpus", self.cpus)
        if self.gpus:
            positive("gpus", self.gpus)
        if self.workers is not None:
            whole("workers", self.workers, least=1)
        whole("retries", self.retries, least=0)
        if self.store is not None:
            whole("store", self.store, least=_LEAST_STORE)

    @property
    def name(self) -> str:
        """What the engine is called."""
        return "ray"

    @contextmanager
    def open(self) -> Iterator[None]:
        """A context in which Ray runs; everything that was started for it ends with the block."""
        ray = _import_ray()
        if ray.is_initialized():
            yield
            return
        with _on_loopback(ray) if _is_here(_address_of(self)) else nullcontext():
            _connect(ray, self)
            try:
                yield
            finally:
                ray.shutdown()

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """The results of the function for all tasks, in their order."""
        ray = _import_ray()
        if not ray.is_initialized():
            with self.open():
                yield from self.map(function, tasks)
            return
        options = {"num_cpus": self.cpus, "num_gpus": self.gpus, "max_retries": self.retries}
        options["max_calls"] = 0  # a worker with a GPU would end after each task, and the next load its model again
        call = ray.remote(**options)(_call)
        shared = ray.put((version("mallow"), function))  # sent once for all tasks, since it may hold centres or axes
        pending = iter(tasks)
        queue = [call.remote(shared, task) for task in islice(pending, _AHEAD * self._at_once(ray))]
        try:
            while queue:
                result = _fetch(ray, queue.pop(0))
                queue.extend(call.remote(shared, task) for task in islice(pending, 1))
                yield result
        finally:
            for left in queue:
                with suppress(Exception):  # the cluster may be gone
                    ray.cancel(left, force=True)

    def _at_once(self, ray: Any) -> int:
        """How many tasks run at once."""
        resources = ray.cluster_resources()
        fit = resources.get("CPU", 1.0) / self.cpus
        if self.gpus:
            fit = min(fit, resources.get("GPU", 0.0) / self.gpus)
            if fit < 1:
                raise InputError(
                    f"`gpus` must be at most what the cluster has, {resources.get('GPU', 0.0):g}; got {self.gpus:g}."
                )
        return max(1, min(int(fit), self.workers or int(fit)))


def _call(shared: tuple[str, Callable[[Any], Any]], task: Any) -> Any:
    """Run one task on a worker."""
    theirs, function = shared
    own = version("mallow")
    if own != theirs:
        raise InputError(
            f"all machines of a cluster must have the same version of mallow, but a worker has {own}, and this "
            f"process has {theirs}. Install mallow=={theirs} on all of them."
        )
    with single_threaded_blas(), one_core():
        return function(task)


def _fetch(ray: Any, reference: Any) -> Any:
    """The result of a task; failures become errors with a way out."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        if isinstance(cause, InputError):
            raise InputError(str(cause)) from error
        lacking = re.search(r"No module named '([\w.]+)'", str(cause))
        if lacking is not None:
            raise InputError(
                f"a worker of the cluster cannot import {lacking[1]}. Install the same mallow[ray] on all machines, or "
                "pass mallow.Ray(runtime_env={'pip': ['mallow[ray]']}); code of your own must be on all machines too."
            ) from error
        if isinstance(cause, ray.exceptions.OutOfDiskError):
            raise InputError(_DISK_FULL) from error
        if isinstance(cause, BaseException):
            raise cause from error
        raise
    except ray.exceptions.OutOfDiskError as error:
        raise InputError(_DISK_FULL) from error
    except ray.exceptions.ObjectLostError as error:
        raise InputError(
            f"what the cluster held is lost and cannot be computed again: {type(error).__name__}. Did its machines die "
            "more than `retries` times? Start again. The checkpoint keeps the finished tasks."
        ) from error
    except (ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError, ray.exceptions.OutOfMemoryError) as error:
        raise InputError(
            f"a task was tried again and again, and its worker died each time: {type(error).__name__}. Usually a task "
            "takes more memory than a machine has: give each more of it with mallow.Ray(cpus=2). What is done stays in "
            "the checkpoint."
        ) from error


def _import_ray() -> Any:
    """Ray, with settings that it reads when it is imported."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # otherwise it warns about a coming change
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")  # errors are raised here and need not be printed
    for name in ("INITIAL", "MAX"):  # three attempts and two waits: 12 seconds in all
        os.environ.setdefault(f"RAY_CLIENT_{name}_CONNECTION_TIMEOUT_S", "2")
    return optional("ray", extra="ray")


def _address_of(engine: Ray) -> str:
    return engine.address or os.environ.get("RAY_ADDRESS") or "local"


def _is_here(address: str) -> bool:
    """Whether Ray runs, or will run, on this machine only."""
    return address == "local" or address.startswith(("127.0.0.1:", "localhost:"))


@contextmanager
def _on_loopback(ray: Any) -> Iterator[None]:
    """Let Ray use 127.0.0.1. Otherwise it uses the network address of this machine, and listens there.

    On Windows and macOS that is Ray's own default. It reads the setting when it is imported, and its processes read it
    again.
    """
    constants = ray._private.ray_constants
    before = constants.ENABLE_RAY_CLUSTER
    settings = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    settings["RAY_worker_niceness"] = "0"  # like threads, workers keep the normal priority
    own = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before
        for name, value in own.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _connect(ray: Any, engine: Ray) -> None:
    """Start Ray, or connect to a cluster."""
    address = _address_of(engine)
    if address == "local":
        options: dict[str, Any] = {"num_cpus": engine.workers, "object_store_memory": engine.store}
        options |= {"include_dashboard": False, "_node_ip_address": "127.0.0.1", "address": address}
    else:
        _probe(str(address))
        options = {"address": address}
        if str(address).startswith(("127.0.0.1:", "localhost:")):  # otherwise Ray uses the network address
            options["_node_ip_address"] = "127.0.0.1"
    options |= {"runtime_env": dict(engine.runtime_env), "log_to_driver": False, "namespace": "mallow"}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an error explains more
            ray.init(**options, logging_level="ERROR")
    except (ConnectionError, RuntimeError, TimeoutError, ValueError) as error:
        raise InputError(
            f"`engine`: no Ray cluster can be used at {address}: {error}. Check the address, that the "
            "cluster runs the same versions of Ray and Python (`ray status` there), and, if it asks for a token, that "
            "RAY_AUTH_MODE=token and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH are set here too."
        ) from error


def _probe(address: str) -> None:
    """Raise an InputError if nothing answers at an address: Ray itself keeps trying for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if address == "auto" or not port.isdigit():
        if address != "auto":
            raise InputError(f"`engine` must be the address of a cluster, such as ray://host:10001; got {address!r}.")
        return
    try:
        socket.create_connection((host or "127.0.0.1", int(port)), timeout=_WAIT).close()
        reason = "" if address.startswith("ray://") or _is_healthy(address) else "what answers there is not Ray"
    except OSError as error:
        reason = error.strerror or str(error)
    if reason:
        raise InputError(
            f"`engine`: no Ray cluster answers at {address}: {reason}. Check the address and that the cluster runs "
            "(`ray status` there), or use `engine='ray'` for this machine."
        )


def _is_healthy(address: str) -> bool:
    """Whether a server at the address of a head node speaks Ray's protocol."""
    if os.environ.get("RAY_USE_TLS", "0") == "1":  # Ray itself checks the certificates
        return True
    grpc = optional("grpc", extra="ray")
    with grpc.insecure_channel(address) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=_WAIT)
            channel.unary_unary(_CHECK)(b"", timeout=_WAIT)
        except grpc.FutureTimeoutError:
            return False
        except grpc.RpcError as error:  # a cluster asks for its token
            silent = (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
            return error.code() not in silent
    return True
