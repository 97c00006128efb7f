"""The workloads, once for every system that is written in Python. A driver says how its system
submits, works and counts what is unfinished; everything that is measured is here.

  python driver.py <workload> --url URL [--jobs N] [--seconds S] [--clients 1,16,64] [--handshake]

A system has: settings(workload), processes(workload), open(url), submit(job), submit_bulk(jobs),
unfinished(), work(url, started, working). A job is (place, due), with its place from zero as
the payload, which proves that each ran once; due is in seconds since 1970, or None.
"""

import argparse
import json
import math
import os
import struct
import subprocess
import sys
import threading
import time

BATCH = 1000
# As many as Punctual's own bench uses.
BULK_CLIENTS = 4
PICKUP_INTERVAL = 0.02
DUE_PER_SECOND = 1000
# How long before the first is due all must be submitted.
AHEAD = 10
# No start and no completion for so long: something is broken.
STALL = 60

# What a worker's process writes into its pipe: a place, or one of two words, and the time.
RECORD = struct.Struct("<Id")
LOADED = 0xFFFFFFFF
WORKING = 0xFFFFFFFE


def main(system):
    options = parse()
    if options.worker is not None:
        return work(system, options)
    WORKLOADS[options.workload](system, options)
    sys.stdout.flush()
    # Threads of a system must not keep the process alive.
    os._exit(0)


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--url", required=True)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--clients", default="1,16,64")
    parser.add_argument("--handshake", action="store_true")
    parser.add_argument("--worker", type=int, metavar="FD")
    return parser.parse_args()


def work(system, options):
    """The worker's process: waits for the word, then tells each start at once."""

    def tell(place):
        # Shorter than a pipe's atomic write, so threads and processes do not mix.
        os.write(options.worker, RECORD.pack(place, time.time()))

    tell(LOADED)
    if not sys.stdin.readline():
        return
    threading.Thread(target=end_with_stdin, daemon=True).start()
    system.work(options.url, tell, lambda: tell(WORKING))


def end_with_stdin():
    sys.stdin.read()
    os._exit(0)


class Workers:
    """What the workers' processes have said."""

    def __init__(self, jobs):
        self.times = [0] * jobs
        self.at = [0.0] * jobs
        self.total = 0
        self.words = {LOADED: 0, WORKING: 0}
        self.children = []

    def spawn(self, system, options):
        """Their modules are loaded when this returns; they work after `go`."""
        for _ in range(system.processes(options.workload)):
            mine, theirs = os.pipe()
            args = [sys.executable, sys.argv[0], options.workload, "--url", options.url, "--worker", str(theirs)]
            child = subprocess.Popen(args, stdin=subprocess.PIPE, stdout=sys.stderr, pass_fds=[theirs])
            os.close(theirs)
            self.children.append(child)
            threading.Thread(target=self.listen, args=[mine], daemon=True).start()
        self.heard(LOADED)

    def listen(self, pipe):
        left = b""
        while read := os.read(pipe, 12_000):
            read = left + read
            whole = len(read) - len(read) % RECORD.size
            for place, at in RECORD.iter_unpack(read[:whole]):
                if place in self.words:
                    self.words[place] += 1
                else:
                    self.times[place] += 1
                    self.at[place] = at
                    self.total += 1
            left = read[whole:]

    def heard(self, word):
        begun = time.time()
        while self.words[word] < len(self.children):
            if time.time() - begun > STALL:
                raise RuntimeError("the workers did not start")
            time.sleep(0.01)

    def go(self):
        for child in self.children:
            child.stdin.write(b"go\n")
            child.stdin.flush()

    def audit(self):
        return {"lost": self.times.count(0), "twice": sum(times > 1 for times in self.times)}

    def finished(self, system, jobs):
        """Waits for the handlers in memory, and only then asks the store, so as not to disturb it."""
        last = (0, time.time())
        while self.total < jobs or system.unfinished() > 0:
            if self.total > last[0]:
                last = (self.total, time.time())
            elif time.time() - last[1] > STALL:
                raise RuntimeError(f"stalled: {self.total} of {jobs} started, {system.unfinished()} unfinished")
            time.sleep(0.005)


def drain(system, options):
    workers = Workers(options.jobs)
    system.open(options.url)
    load(system, options.jobs, lambda place: None)
    workers.spawn(system, options)
    mark(options, "loaded")
    mark(options, "begin")
    begun = time.time()
    workers.go()
    workers.finished(system, options.jobs)
    seconds = time.time() - begun
    mark(options, "end")
    show(system, options, seconds=seconds, per_second=options.jobs / seconds, **workers.audit())


def submit_single(system, options):
    system.open(options.url)
    for clients in map(int, options.clients.split(",")):
        before = system.unfinished()
        latencies = []
        mark(options, "begin")
        begun = time.time()

        def client():
            while time.time() - begun < options.seconds:
                sent = time.time()
                system.submit((0, None))
                latencies.append(time.time() - sent)

        together(client, clients)
        seconds = time.time() - begun
        mark(options, "end")
        jobs = len(latencies)
        rest = {"clients": clients, **quantiles(latencies), **stored(system.unfinished() - before, jobs)}
        rate = {"jobs": jobs, "seconds": seconds, "per_second": jobs / seconds}
        show(system, options, workload=f"submit-single/{clients}", **rate, **rest)


def submit_bulk(system, options):
    system.open(options.url)
    mark(options, "begin")
    begun = time.time()
    load(system, options.jobs, lambda place: None)
    seconds = time.time() - begun
    mark(options, "end")
    rest = {"clients": BULK_CLIENTS, "batch": BATCH, **stored(system.unfinished(), options.jobs)}
    rate = {"seconds": seconds, "per_second": options.jobs / seconds}
    show(system, options, workload=f"submit-bulk/{BATCH}", **rate, **rest)


def pickup(system, options):
    """Open loop: each is sent at its planned instant, whatever became of the others."""
    workers = Workers(options.jobs)
    system.open(options.url)
    workers.spawn(system, options)
    workers.go()
    workers.heard(WORKING)
    time.sleep(2)
    mark(options, "begin")
    begun = time.time()
    sent = [0.0] * options.jobs
    places = iter(range(options.jobs))
    lock = threading.Lock()

    def client():
        while True:
            with lock:
                place = next(places, None)
            if place is None:
                return
            time.sleep(max(0, begun + place * PICKUP_INTERVAL - time.time()))
            sent[place] = time.time()
            system.submit((place, None))

    # Several, so that one slow submission does not delay the next.
    together(client, 8)
    workers.finished(system, options.jobs)
    seconds = time.time() - begun
    mark(options, "end")
    latencies = [at - planned for at, planned in zip(workers.at, sent)]
    show(system, options, seconds=seconds, **quantiles(latencies), **workers.audit())


def precision(system, options):
    workers = Workers(options.jobs)
    system.open(options.url)
    workers.spawn(system, options)
    workers.go()
    workers.heard(WORKING)
    first = math.ceil(time.time()) + AHEAD + 3 + options.jobs // 700
    load(system, options.jobs, lambda place: first + place / DUE_PER_SECOND)
    if time.time() + AHEAD > first:
        raise RuntimeError("submitting took too long for the jobs to be due 10 s later")
    time.sleep(first - time.time())
    mark(options, "begin")
    begun = time.time()
    workers.finished(system, options.jobs)
    seconds = time.time() - begun
    mark(options, "end")
    late = [at - (first + place / DUE_PER_SECOND) for place, at in enumerate(workers.at)]
    early = {"early": sum(time < 0 for time in late), "earliest_ms": max(0, -min(late)) * 1000}
    show(system, options, seconds=seconds, **quantiles([max(0, time) for time in late]), **early, **workers.audit())


WORKLOADS = {
    "drain": drain,
    "submit-single": submit_single,
    "submit-bulk": submit_bulk,
    "pickup": pickup,
    "precision": precision,
}


def load(system, jobs, due):
    firsts = iter(range(0, jobs, BATCH))
    lock = threading.Lock()

    def client():
        while True:
            with lock:
                first = next(firsts, None)
            if first is None:
                return
            system.submit_bulk([(place, due(place)) for place in range(first, min(first + BATCH, jobs))])

    together(client, BULK_CLIENTS)


def together(client, count):
    failures = []

    def guarded():
        try:
            client()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def stored(found, sent):
    return {"lost": max(0, sent - found), "twice": max(0, found - sent)}


def quantiles(latencies):
    ordered = sorted(latencies)
    names = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99, "p999_ms": 0.999, "max_ms": 1}
    return {name: ordered[max(0, math.ceil(part * len(ordered)) - 1)] * 1000 for name, part in names.items()}


def mark(options, name):
    """Tells the caller where we are, and waits until it has read its counters."""
    print(f"# {name}", flush=True)
    if options.handshake:
        sys.stdin.readline()


def show(system, options, **fields):
    figure = {"workload": options.workload, "jobs": options.jobs, "settings": system.settings(options.workload), **fields}
    print(json.dumps(figure), flush=True)
