"""On a real Kubernetes API server on this machine: the same tables as by a local run. `python -m
tests.kubernetes`.

Needs Go, which builds the API server (the first time some 600 MB of modules and half an hour of a core), and
etcd (`apt install etcd-server`). There is no container: `Pods` stands in for kubelet and image and starts
what the image of Spark would start, with a Python that has no kdissect. Tells what it compares; the exit code
is 1 if something differs.
"""

import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from pyarrow import parquet

from kdissect.cache_directory import cache_home
from kdissect.tables.schemas import TABLES
from tests.helpers.spark_cluster import make_python
from tests.kubernetes.pods import Api, Pods

SOURCES = Path(__file__).with_name("apiserver")
CAPTURE = Path(__file__).parents[2] / "captures" / "broker-restart.pcapng"
START_SECONDS = 300
TOKEN = "of-this-run"


def main() -> int:
    """Run it all."""
    program = built()
    with tempfile.TemporaryDirectory(prefix="kubernetes-") as name:
        folder = Path(name)
        with running(program, folder) as api, Pods(api, folder, make_python(folder)) as pods:
            return compared(folder, api, pods)


def built() -> Path:
    """Return the API server, built once for each version."""
    version = (SOURCES / "go.mod").read_text().partition("k8s.io/kubernetes ")[2].split()[0]
    program = cache_home() / f"kube-apiserver-{version}"
    if not program.exists():
        with tempfile.TemporaryDirectory(prefix="apiserver-") as folder:
            shutil.copytree(SOURCES, folder, dirs_exist_ok=True)
            part = Path(folder) / "kube-apiserver"
            go = ["go", "build", "-mod=mod", "-trimpath", "-ldflags=-s -w", "-o", str(part), "."]
            subprocess.run(go, cwd=folder, check=True)
            program.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(part, program)
    return program


@contextmanager
def running(program: Path, folder: Path) -> Iterator[Api]:
    """Run etcd and the API server on the loopback interface."""
    store, peer, port = free_port(), free_port(), free_port()
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    (folder / "key.pem").write_bytes(pem)
    (folder / "tokens.csv").write_text(f"{TOKEN},tester,1,system:masters\n")
    at = f"http://127.0.0.1:{store}"
    commands = [
        [
            "etcd",
            "--data-dir",
            str(folder / "etcd"),
            "--listen-client-urls",
            at,
            "--advertise-client-urls",
            at,
            "--listen-peer-urls",
            f"http://127.0.0.1:{peer}",
            "--unsafe-no-fsync",
        ],
        [
            str(program),
            f"--etcd-servers={at}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={folder / 'certs'}",
            f"--service-account-key-file={folder / 'key.pem'}",
            f"--service-account-signing-key-file={folder / 'key.pem'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--token-auth-file={folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--watch-cache=false",  # which wants a newer etcd than Debian has
            "--disable-admission-plugins=ServiceAccount",
        ],  # whose accounts another program makes
    ]
    started: list[subprocess.Popen[bytes]] = []
    try:
        with (folder / "log").open("wb") as log:
            started += [subprocess.Popen(command, stdout=log, stderr=log, cwd=folder) for command in commands]
        certificate = folder / "certs" / "apiserver.crt"
        wait_for(certificate.exists, folder, started)
        api = Api(port, TOKEN, ssl.create_default_context(cafile=certificate), certificate)
        wait_for(api.ready, folder, started)
        yield api
    finally:
        for process in reversed(started):
            process.kill()
            process.wait()


def wait_for(there: Callable[[], bool], folder: Path, started: list[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not there():
        if any(process.poll() is not None for process in started) or time.monotonic() > deadline:
            raise SystemExit((folder / "log").read_text()[-3000:])
        time.sleep(0.2)


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def compared(folder: Path, api: Api, pods: Pods) -> int:
    confs = folder / "conf"
    confs.mkdir()
    (confs / "spark-defaults.conf").write_text(
        "spark.kubernetes.container.image none\nspark.kubernetes.namespace default\n"
        f"spark.kubernetes.authenticate.caCertFile {api.certificate}\n"
        f"spark.kubernetes.authenticate.oauthToken {TOKEN}\n"
        "spark.executor.instances 2\nspark.executor.memory 512m\n"
        "spark.driver.host 127.0.0.1\nspark.driver.bindAddress 127.0.0.1\n"
        f"spark.pyspark.python {pods.python}\nspark.executorEnv.KDISSECT_JIT 0\n"
        f"spark.executorEnv.XDG_CACHE_HOME {folder / 'cache'}\n"
    )
    os.environ["SPARK_CONF_DIR"] = str(confs)
    export(folder / "near", "--master", "local[2]")
    export(folder / "far", "--master", f"k8s://https://127.0.0.1:{api.port}", "--split-bytes", "300k")
    differ = [name for name in TABLES if not rows(folder / "near", name).equals(rows(folder / "far", name))]
    print(
        f"{len(TABLES) - len(differ)} of {len(TABLES)} tables are the same by {pods.started} executors "
        "in pods"
    )
    return 1 if differ or pods.started != 2 else 0


def export(out: Path, *arguments: str) -> None:
    began = time.monotonic()
    command = [sys.executable, "-m", "kdissect", "export", str(CAPTURE), "--table", "all", "--out", str(out)]
    subprocess.run([*command, *arguments], check=True)
    print(f"{' '.join(arguments)}: {time.monotonic() - began:.0f} s", flush=True)


def rows(folder: Path, name: str) -> pa.Table:
    table = parquet.read_table(folder / name)
    return table.sort_by([(column, "ascending") for column in table.column_names])


if __name__ == "__main__":
    sys.exit(main())
