"""Stand-in for kubelet and image: pods of executors as processes of this machine."""

import http.client
import json
import os
import signal
import ssl
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kdissect.spark.startup.java import find_java
from kdissect.spark.startup.jvm import OPTIONS, spark_jars

PODS = "/api/v1/namespaces/default/pods"
ADDRESS = "127.0.0.1"


@dataclass(frozen=True)
class Api:
    """The API server, for whoever has the token."""

    port: int
    token: str
    trust: ssl.SSLContext
    certificate: Path

    def ask(self, method: str, path: str, body: object = None) -> http.client.HTTPResponse:
        connection = http.client.HTTPSConnection(ADDRESS, self.port, context=self.trust)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/merge-patch+json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        return connection.getresponse()

    def ready(self) -> bool:
        with suppress(OSError):
            return self.ask("GET", "/readyz").status == 200 and self.ask("GET", PODS).status == 200
        return False


class Pods:
    """Starts the process of each pod that appears, and ends it with the pod. A context manager."""

    def __init__(self, api: Api, folder: Path, python: Path) -> None:
        self._api, self._folder, self.python = api, folder, python
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.started = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self._processes):
            self._end(name)

    def _watch(self) -> None:
        for line in self._api.ask("GET", f"{PODS}?watch=true"):
            event = json.loads(line)
            name = event["object"]["metadata"]["name"]
            if event["type"] == "ADDED":
                self._begin(name, event["object"])
            elif event["type"] == "DELETED":
                self._end(name)

    def _begin(self, name: str, pod: dict[str, Any]) -> None:
        (container,) = pod["spec"]["containers"]
        home = self._folder / name
        home.mkdir()
        told = {entry["name"]: self._value(entry, pod) for entry in container["env"]}
        # its volumes: what of it the image of Spark would have elsewhere
        told |= {"SPARK_LOCAL_DIRS": str(home), "SPARK_HOME": str(spark_jars()[0].parents[1])}
        told.pop("SPARK_CONF_DIR", None)
        with (home / "log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                self._command(told), env={"PATH": os.environ["PATH"], **told}, cwd=home,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.started += 1
        state = {"running": {}}
        status = {
            "name": container["name"],
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": state,
        }
        running = {
            "phase": "Running",
            "podIP": ADDRESS,
            "podIPs": [{"ip": ADDRESS}],
            "containerStatuses": [status | {"image": container["image"], "imageID": ""}],
        }
        self._api.ask("PATCH", f"{PODS}/{name}/status", {"status": running})

    def _value(self, entry: dict[str, Any], pod: dict[str, Any]) -> str:
        field = entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
        known = {"status.podIP": ADDRESS, "metadata.name": pod["metadata"]["name"]}
        return known[field] if field else entry.get("value", "")

    def _command(self, told: dict[str, str]) -> list[str]:
        """Return what the entry point of Spark's image starts when it is told `executor`."""
        return [
            str(find_java().program), *OPTIONS,
            *(told[name] for name in sorted(told) if name.startswith("SPARK_JAVA_OPT_")),
            f"-Xmx{told['SPARK_EXECUTOR_MEMORY']}", "-cp", str(spark_jars()[0].parent / "*"),
            "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
            "--driver-url", told["SPARK_DRIVER_URL"], "--executor-id", told["SPARK_EXECUTOR_ID"],
            "--cores", told["SPARK_EXECUTOR_CORES"], "--app-id", told["SPARK_APPLICATION_ID"],
            "--hostname", told["SPARK_EXECUTOR_POD_IP"],
            "--resourceProfileId", told["SPARK_RESOURCE_PROFILE_ID"],
            "--podName", told["SPARK_EXECUTOR_POD_NAME"],
        ]  # fmt: skip

    def _end(self, name: str) -> None:
        if process := self._processes.pop(name, None):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
