"""A worker in Python, with nothing but the standard library and HTTP.

It claims executions of the kind `greet`, renews their leases while they run, and completes or fails them:

    python3 examples/python/worker.py http://127.0.0.1:7700
    weft submit greet --input '{"name": "Ada"}' --wait

The key, if the server asks for one, is read from the variable WEFT_KEY. `--once N` ends it after N executions.
"""

import argparse
import http.client
import json
import os
import socket
import threading
import time
import urllib.error
import urllib.request


# What a call may end with that the next try may not: no connection, one that broke, a reply that is none.
NO_ANSWER = (OSError, http.client.HTTPException, ValueError, KeyError, IndexError, TypeError)


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
        """Waits up to 20 seconds for one execution, and says since when it is leased; none is no error."""
        wish = {"worker": worker, "instance": instance, "kinds": kinds, "wait_ms": 20_000, "lease_ms": 10_000}
        sent = time.monotonic()
        reply = self.post("/v1/work/claim", wish)
        # The lease began after the wait, so that it is counted from there.
        began = sent + reply["waited_ms"] / 1_000
        return (reply["executions"] or [None])[0], began

    def settle(self, path, heartbeat, **fields):
        """Ends the lease. Only its holder can: the epoch proves that nobody else has taken over. A repeat is harmless, so
        that the outcome is sent until it is answered or the lease has run out."""
        item = {**fence(heartbeat.task), **fields}
        while True:
            try:
                settled = self.post(path, {"items": [item]}, timeout=5)["results"][0]
                problem = settled.get("error")
                if problem is None or problem["class"] != "later" and problem["code"] != "internal":
                    return settled
            except urllib.error.HTTPError as error:
                problem = f"{error.code} {error.reason}"
                if error.code not in (408, 429, 500, 502, 503, 504):
                    return {"error": problem}
            except NO_ANSWER as error:
                problem = repr(error)
            if heartbeat.left() <= 0:
                return {"error": f"the lease was over before the outcome was answered: {problem}"}
            print(f"could not send an outcome: {problem}; trying again", flush=True)
            time.sleep(0.5)


def said(refusal):
    """What a refusal says, if it is one of Weft's and not of something on the way."""
    try:
        return json.load(refusal)["detail"]
    except NO_ANSWER:
        return f"{refusal.code} {refusal.reason}"


def fence(task):
    return {"execution": task["execution"], "lease": task["lease"]["id"], "epoch": task["lease"]["epoch"]}


class Heartbeat:
    """Renews the lease of a task in the background, and knows whether the work should go on."""

    def __init__(self, weft, task, began):
        self.weft, self.task = weft, task
        self.stop, self.cancelled, self.asked = threading.Event(), threading.Event(), False
        self.length = task["lease"]["expires_in_ms"] / 1_000
        self.until = began + self.length
        self.thread = threading.Thread(target=self.run, daemon=True)

    def left(self):
        """Seconds that the lease is still good. Counted from when it was asked for, never later than the server does."""
        return self.until - time.monotonic()

    def run(self):
        pause = self.length / 3
        while not self.stop.wait(min(pause, max(self.left(), 0))):
            if self.left() <= 0:
                break  # Somebody else may have it by now, whatever the network says.
            sent, pause = time.monotonic(), self.length / 3
            try:
                item = {**fence(self.task), "lease_ms": int(self.length * 1_000)}
                renewed = self.weft.post("/v1/work/renew", {"items": [item]}, timeout=pause)["results"][0]
                if "ok" in renewed:
                    self.until = sent + renewed["ok"]["expires_in_ms"] / 1_000
                    self.asked = "cancel" in renewed["ok"]
                    if self.asked:
                        break
                elif renewed["error"]["class"] == "later" or renewed["error"]["code"] == "internal":
                    pause = 0.5
                else:
                    self.until = 0  # The lease is lost.
                    break
            except NO_ANSWER:
                pause = 0.5  # The server may be back in time.
        if not self.stop.is_set():
            self.cancelled.set()

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


def work(weft, task, began):
    with Heartbeat(weft, task, began) as heartbeat:
        try:
            result = greet(task, heartbeat)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            # The same input would fail the same way: no retry.
            fields = {"category": "input", "message": f"bad input: {error!r}", "retry": "never"}
            return weft.settle("/v1/work/fail", heartbeat, **fields)
        if heartbeat.asked:
            return weft.settle("/v1/work/fail", heartbeat, message="stopped by a cancel", retry="never")
        if heartbeat.cancelled.is_set():
            return {"error": "the lease was lost; the result counts for nothing"}
        return weft.settle("/v1/work/complete", heartbeat, result={"json": result})


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
            task, began = weft.claim("greeter", instance, ["greet"])
        except urllib.error.HTTPError as error:
            print(f"refused: {said(error)}", flush=True)
            time.sleep(1)
            continue
        except NO_ANSWER as error:
            print(f"could not claim: {error!r}; trying again", flush=True)
            time.sleep(1)
            continue
        if task:
            settled = work(weft, task, began)
            done += 1
            print(f"{task['execution']} attempt {task['attempt']['index']}: {json.dumps(settled)}", flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
