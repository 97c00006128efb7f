// Graphile Worker. It deletes jobs when they are done.
import { Logger, makeWorkerUtils, run } from 'graphile-worker'
import pg from 'pg'
import { main } from '../harness/node/harness.mjs'

const quiet = new Logger(() => () => {})
let utils
let pool

const spec = job => ({
  identifier: 'noop',
  payload: { place: job.place },
  runAt: job.due === null ? undefined : new Date(job.due)
})

main({
  settings (workload) {
    switch (workload) {
      case 'submit-single': return 'addJob, pool of 64'
      case 'submit-bulk': return 'addJobs'
      default: return 'concurrentJobs 24, pool 10, localQueue 2000, completeJobBatchDelay 0, poll 100 ms, 2 processes'
    }
  },

  processes: () => 2,

  async open (url) {
    pool = new pg.Pool({ connectionString: url, max: 64 })
    pool.on('error', () => {})
    pool.on('connect', client => client.on('error', () => {}))
    utils = await makeWorkerUtils({ pgPool: pool, logger: quiet })
    await utils.migrate()
  },

  submit (job) {
    const { identifier, payload, runAt } = spec(job)
    return utils.addJob(identifier, payload, { runAt })
  },

  submitBulk: jobs => utils.addJobs(jobs.map(spec)),

  async unfinished () {
    const { rows } = await pool.query('select count(*)::int as left from graphile_worker._private_jobs')
    return rows[0].left
  },

  async work (url, workload, started) {
    await run({
      noHandleSignals: true,
      taskList: { noop: payload => started(payload.place) },
      preset: {
        worker: {
          connectionString: url,
          concurrentJobs: 24,
          maxPoolSize: 10,
          pollInterval: 100,
          localQueue: { size: 2000 },
          completeJobBatchDelay: 0,
          logger: quiet
        }
      }
    })
  }
})
