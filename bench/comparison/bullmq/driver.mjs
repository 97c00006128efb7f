// BullMQ on Redis. Its durability is weaker: with `appendfsync everysec` a crash may lose the
// last second of what was acknowledged.
import { Queue, Worker } from 'bullmq'
import { Redis } from 'ioredis'
import { main } from '../harness/node/harness.mjs'

const QUEUE = 'noop'
const opts = { removeOnComplete: true, removeOnFail: true }
let queue

const connected = url => new Redis(url, { maxRetriesPerRequest: null })
const delay = job => job.due === null ? undefined : Math.max(0, job.due - Date.now())

main({
  settings (workload) {
    switch (workload) {
      case 'submit-single': return 'add, one connection'
      case 'submit-bulk': return 'addBulk'
      default: return 'concurrency 500, removeOnComplete, 1 process'
    }
  },

  processes: () => 1,

  async open (url) {
    queue = new Queue(QUEUE, { connection: connected(url) })
    await queue.waitUntilReady()
  },

  submit: job => queue.add(QUEUE, { place: job.place }, { ...opts, delay: delay(job) }),

  submitBulk: jobs => queue.addBulk(jobs.map(job => (
    { name: QUEUE, data: { place: job.place }, opts: { ...opts, delay: delay(job) } }
  ))),

  unfinished: () => queue.getJobCountByTypes('waiting', 'active', 'delayed', 'prioritized'),

  async work (url, workload, started) {
    const worker = new Worker(QUEUE, async job => started(job.data.place), {
      connection: connected(url),
      concurrency: 500
    })
    worker.on('error', console.error)
    await worker.waitUntilReady()
  }
})
