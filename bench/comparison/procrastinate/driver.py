"""Procrastinate. Set to delete jobs when they are done, which is its fastest."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness", "python"))

import asyncio
import datetime
import logging

import procrastinate

import harness

# It warns of an app in the main module, where it must be here.
logging.getLogger("procrastinate").setLevel(logging.ERROR)


class System:
    def settings(self, workload):
        if workload == "submit-single":
            return "defer, a thread for each client, 1 process"
        if workload == "submit-bulk":
            return "batch_defer, 4 threads, 1 process"
        return "concurrency 50, pool 20, poll 100 ms, delete_jobs always, 1 process"

    def processes(self, workload):
        return 1

    def open(self, url):
        connector = procrastinate.SyncPsycopgConnector(conninfo=url, min_size=4, max_size=64)
        self.app = procrastinate.App(connector=connector)
        self.noop = self.app.task(name="noop")(lambda place: None)
        self.app.open()
        self.app.schema_manager.apply_schema()

    def new_job(self, job):
        place, due = job
        at = {"schedule_at": datetime.datetime.fromtimestamp(due, datetime.timezone.utc)} if due else {}
        return self.noop.configure(**at).make_new_job(place=place)

    def submit(self, job):
        self.app.job_manager.defer_job(self.new_job(job))

    def submit_bulk(self, jobs):
        # What batch_defer does, with a due time for each.
        self.app.job_manager.batch_defer_jobs([self.new_job(job) for job in jobs])

    def unfinished(self):
        text = "select count(*) as left_over from procrastinate_jobs where status in ('todo', 'doing')"
        return self.app.connector.execute_query_one(text)["left_over"]

    def work(self, url, started, working):
        async def noop(place):
            started(place)

        async def run():
            connector = procrastinate.PsycopgConnector(conninfo=url, min_size=20, max_size=20)
            app = procrastinate.App(connector=connector)
            app.task(name="noop")(noop)
            async with app.open_async():
                working()
                await app.run_worker_async(
                    concurrency=50,
                    fetch_job_polling_interval=0.1,
                    delete_jobs="always",
                    install_signal_handlers=False,
                )

        asyncio.run(run())


harness.main(System())
