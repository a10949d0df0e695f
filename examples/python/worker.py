"""A worker in Python, with nothing but the standard library and HTTP.

It claims executions of the kind `greet`, renews their leases while they run, and completes or fails them:

    python3 examples/python/worker.py http://127.0.0.1:7700
    weft submit greet --input '{"name": "Ada"}' --wait

The key, if the server asks for one, is read from the variable WEFT_KEY. `--once N` ends it after N executions.
"""

import argparse
import json
import os
import socket
import threading
import time
import urllib.error
import urllib.request


class Weft:
    def __init__(self, url, key=None):
        self.url = url.rstrip("/")
        self.headers = {"Content-Type": "application/json"}
        if key:
            self.headers["Authorization"] = f"Bearer {key}"

    def post(self, path, body, timeout=30):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), self.headers)
        with urllib.request.urlopen(request, timeout=timeout) as reply:
            return json.load(reply)

    def claim(self, worker, instance, kinds):
        """Waits up to 20 seconds for one execution; none is no error."""
        wish = {"worker": worker, "instance": instance, "kinds": kinds, "wait_ms": 20_000, "lease_ms": 10_000}
        executions = self.post("/v1/work/claim", wish)["executions"]
        return executions[0] if executions else None

    def settle(self, path, task, **fields):
        """Ends the lease. Only its holder can: the epoch proves that nobody else has taken over."""
        item = {**fence(task), **fields}
        return self.post(path, {"items": [item]})["results"][0]


def fence(task):
    return {"execution": task["execution"], "lease": task["lease"]["id"], "epoch": task["lease"]["epoch"]}


class Heartbeat:
    """Renews the lease of a task in the background, and knows whether it should go on."""

    def __init__(self, weft, task):
        self.weft, self.task = weft, task
        self.stop, self.cancelled = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        while not self.stop.wait(self.task["lease"]["expires_in_ms"] / 3_000):
            try:
                renewed = self.weft.post("/v1/work/renew", {"items": [fence(self.task)]})["results"][0]
            except OSError:
                continue  # The server may be back in time.
            if "error" in renewed or "cancel" in renewed["ok"]:
                self.cancelled.set()
                return

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()


def greet(task, heartbeat):
    """The work itself. The input is the JSON that was submitted."""
    name = task["input"]["json"]["name"]
    for _ in range(int(task["input"]["json"].get("seconds", 0) * 10)):
        if heartbeat.cancelled.wait(0.1):
            return None
    return {"greeting": f"Hello, {name}!"}


def work(weft, task):
    try:
        with Heartbeat(weft, task) as heartbeat:
            result = greet(task, heartbeat)
        if heartbeat.cancelled.is_set():
            return weft.settle("/v1/work/fail", task, message="stopped by a cancel", retry="never")
        return weft.settle("/v1/work/complete", task, result={"json": result})
    except (KeyError, TypeError) as error:
        # The same input would fail the same way: no retry.
        return weft.settle("/v1/work/fail", task, category="input", message=f"bad input: {error!r}", retry="never")


def main():
    arguments = argparse.ArgumentParser(description="A Weft worker for the kind `greet`.")
    arguments.add_argument("url", nargs="?", default="http://127.0.0.1:7700")
    arguments.add_argument("--once", type=int, metavar="N", help="end after N executions")
    chosen = arguments.parse_args()
    weft = Weft(chosen.url, os.environ.get("WEFT_KEY"))
    instance = f"{socket.gethostname()}-{os.getpid()}"
    print(f"greeter {instance} waits for work from {chosen.url}", flush=True)
    done = 0
    while chosen.once is None or done < chosen.once:
        try:
            task = weft.claim("greeter", instance, ["greet"])
        except urllib.error.HTTPError as error:
            print(f"refused: {json.load(error)['detail']}", flush=True)
            time.sleep(1)
            continue
        except OSError as error:
            print(f"could not reach the server: {error}; trying again", flush=True)
            time.sleep(1)
            continue
        if task:
            settled = work(weft, task)
            done += 1
            print(f"{task['execution']} attempt {task['attempt']['index']}: {json.dumps(settled)}", flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
