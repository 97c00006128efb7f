"""Celery on Redis. Its durability is weaker: with `appendfsync everysec` a crash may lose the
last second of what was acknowledged. It has no bulk submission; a batch is a loop."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness", "python"))

import datetime

import redis
from celery import Celery, signals

import harness

QUEUE = "bench"


def application(url):
    app = Celery("bench", broker=url)
    app.conf.update(
        task_default_queue=QUEUE,
        task_ignore_result=True,
        # As for the others: a job is done when it has run, not when it was handed out.
        task_acks_late=True,
        worker_prefetch_multiplier=128,
        worker_enable_remote_control=False,
        worker_hijack_root_logger=False,
        broker_pool_limit=64,
        broker_connection_retry_on_startup=True,
    )
    return app


class System:
    def settings(self, workload):
        if workload == "submit-single":
            return "apply_async, a thread for each client, 1 process"
        if workload == "submit-bulk":
            return "apply_async in a loop, 4 threads, 1 process"
        return "solo pool, prefetch 128, acks_late, ignore_result, 2 processes"

    def processes(self, workload):
        return 2

    def open(self, url):
        self.redis = redis.Redis.from_url(url)
        app = application(url)

        @app.task(name="noop")
        def noop(place):
            pass

        self.noop = noop
        app.finalize()

    def submit(self, job):
        place, due = job
        eta = due and datetime.datetime.fromtimestamp(due, datetime.timezone.utc)
        self.noop.apply_async((place,), eta=eta)

    def submit_bulk(self, jobs):
        for job in jobs:
            self.submit(job)

    def unfinished(self):
        return self.redis.llen(QUEUE) + self.redis.hlen("unacked")

    def work(self, url, started, working):
        app = application(url)

        @app.task(name="noop")
        def noop(place):
            started(place)

        app.finalize()
        signals.worker_ready.connect(lambda **_: working(), weak=False)
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=ERROR"]
        app.worker_main(["worker", "--pool=solo", f"--hostname=bench-{os.getpid()}@localhost", *quiet])


harness.main(System())
