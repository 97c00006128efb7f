// pg-boss. It polls, at least half a second apart, and keeps completed jobs for a while.
import pg from 'pg'
import PgBoss from 'pg-boss'
import { main } from '../harness/node/harness.mjs'

const QUEUE = 'noop'
let boss
let pool

const opened = url => new PgBoss({ connectionString: url, max: 64, schedule: false })

main({
  settings (workload) {
    switch (workload) {
      case 'submit-single': return 'send, pool of 64'
      case 'submit-bulk': return 'insert'
      default: return 'batchSize 5000, poll 0.5 s, 2 × work(), 2 processes'
    }
  },

  processes: () => 2,

  async open (url) {
    pool = new pg.Pool({ connectionString: url, max: 2 })
    boss = opened(url)
    boss.on('error', console.error)
    await boss.start()
    await boss.createQueue(QUEUE)
  },

  submit: job => boss.send(QUEUE, { place: job.place }),

  submitBulk: jobs => boss.insert(jobs.map(job => ({
    name: QUEUE,
    data: { place: job.place },
    startAfter: job.due === null ? undefined : new Date(job.due).toISOString()
  }))),

  async unfinished () {
    const text = "select count(*)::int as left from pgboss.job where name = $1 and state < 'completed'"
    const { rows } = await pool.query(text, [QUEUE])
    return rows[0].left
  },

  async work (url, workload, started) {
    const worker = opened(url)
    worker.on('error', console.error)
    await worker.start()
    for (let loops = 0; loops < 2; loops++) {
      await worker.work(QUEUE, { batchSize: 5000, pollingIntervalSeconds: 0.5 }, async jobs => {
        for (const job of jobs) started(job.data.place)
      })
    }
  }
})
