// The workloads, once for every system that runs on Node. A driver says how its system submits,
// works and counts what is unfinished; everything that is measured is here.
//
//   node driver.mjs <workload> --url URL [--jobs N] [--seconds S] [--clients 1,16,64] [--handshake]
//
// A system has: settings(workload), processes(workload), open(url, workload), submit(job),
// submitBulk(jobs), unfinished(), work(url, workload, started). A job is { place, due }, with
// its place from zero as the payload, which proves that each ran once.
import { fork } from 'node:child_process'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'

const BATCH = 1000
// As many as Punctual's own bench uses.
const BULK_CLIENTS = 4
const PICKUP_INTERVAL_MS = 20
const DUE_PER_SECOND = 1000
// How long before the first is due all must be submitted.
const AHEAD_MS = 10_000
// No start and no completion for so long: something is broken.
const STALL_MS = 60_000

// Milliseconds since 1970 with a fraction; Date.now() would make jobs look early.
const now = () => performance.timeOrigin + performance.now()

export async function main (system) {
  const options = parse(process.argv.slice(2))
  if (options.worker) return work(system, options)
  try {
    await workloads[options.workload](system, options)
    process.exit(0)
  } catch (error) {
    console.error(error)
    process.exit(1)
  }
}

function parse ([workload, ...rest]) {
  const options = { workload, jobs: 1000, seconds: 5, clients: [1, 16, 64], handshake: false, worker: false }
  for (let at = 0; at < rest.length; at++) {
    switch (rest[at]) {
      case '--handshake': options.handshake = true; break
      case '--worker': options.worker = true; break
      case '--url': options.url = rest[++at]; break
      case '--jobs': options.jobs = Number(rest[++at]); break
      case '--seconds': options.seconds = Number(rest[++at]); break
      case '--clients': options.clients = rest[++at].split(',').map(Number); break
      default: throw new Error(`there is no option ${rest[at]}`)
    }
  }
  if (!workloads[workload]) throw new Error(`there is no workload ${workload}`)
  return options
}

// The worker's process: waits for the word, then tells every 10 ms what has started.
async function work (system, options) {
  let places = []
  let times = []
  const started = place => {
    places.push(place)
    times.push(now())
  }
  setInterval(() => {
    if (places.length === 0) return
    process.send({ places: Uint32Array.from(places), times: Float64Array.from(times) })
    places = []
    times = []
  }, 10)
  process.on('disconnect', () => process.exit(0))
  process.on('message', async () => {
    try {
      await system.work(options.url, options.workload, started)
      process.send('working')
    } catch (error) {
      console.error(error)
      process.exit(1)
    }
  })
  process.send('loaded')
}

// What the workers' processes have said.
class Workers {
  constructor (jobs) {
    this.times = new Uint32Array(jobs)
    this.at = new Float64Array(jobs)
    this.total = 0
    this.children = []
  }

  // Their modules are loaded when this returns; they work after `go`.
  async spawn (system, options) {
    const args = [options.workload, '--worker', '--url', options.url]
    for (let left = system.processes(options.workload); left > 0; left--) {
      const child = fork(process.argv[1], args, { serialization: 'advanced', stdio: ['ignore', 2, 2, 'ipc'] })
      this.children.push(child)
      await this.heard(child, 'loaded')
      child.on('message', message => this.record(message))
      child.on('exit', code => { if (code) { console.error(`a worker ended with ${code}`); process.exit(1) } })
    }
  }

  heard (child, word) {
    return new Promise(resolve => child.on('message', message => { if (message === word) resolve() }))
  }

  async go () {
    await Promise.all(this.children.map(child => {
      const working = this.heard(child, 'working')
      child.send('go')
      return working
    }))
  }

  record ({ places, times }) {
    if (!places) return
    places.forEach((place, at) => {
      this.times[place]++
      this.at[place] = times[at]
    })
    this.total += places.length
  }

  audit () {
    let lost = 0
    let twice = 0
    for (const times of this.times) {
      lost += times === 0 ? 1 : 0
      twice += times > 1 ? 1 : 0
    }
    return { lost, twice }
  }

  // Waits for the handlers in memory, and only then asks the store, so as not to disturb it.
  async finished (system, jobs) {
    let last = { total: 0, at: now() }
    for (;;) {
      if (this.total >= jobs && await system.unfinished() === 0) return
      if (this.total > last.total) last = { total: this.total, at: now() }
      else if (now() - last.at > STALL_MS) {
        throw new Error(`stalled: ${this.total} of ${jobs} jobs started, ${await system.unfinished()} unfinished`)
      }
      await sleep(5)
    }
  }
}

const workloads = {
  async drain (system, options) {
    const workers = new Workers(options.jobs)
    await system.open(options.url, options.workload)
    await load(system, options.jobs, () => null)
    await workers.spawn(system, options)
    await mark(options, 'loaded')
    await mark(options, 'begin')
    const begun = now()
    workers.go()
    await workers.finished(system, options.jobs)
    const seconds = (now() - begun) / 1000
    await mark(options, 'end')
    print(system, options, { seconds, per_second: options.jobs / seconds, ...workers.audit() })
  },

  async 'submit-single' (system, options) {
    await system.open(options.url, options.workload)
    let place = 0
    for (const clients of options.clients) {
      const before = await system.unfinished()
      const latencies = []
      await mark(options, 'begin')
      const begun = now()
      const client = async () => {
        while (now() - begun < options.seconds * 1000) {
          const sent = now()
          await system.submit({ place: place++, due: null })
          latencies.push(now() - sent)
        }
      }
      await Promise.all(Array.from({ length: clients }, client))
      const seconds = (now() - begun) / 1000
      await mark(options, 'end')
      const jobs = latencies.length
      const workload = `submit-single/${clients}`
      const rest = { clients, ...quantiles(latencies), ...stored(await system.unfinished() - before, jobs) }
      print(system, options, { workload, jobs, seconds, per_second: jobs / seconds, ...rest })
    }
  },

  async 'submit-bulk' (system, options) {
    await system.open(options.url, options.workload)
    await mark(options, 'begin')
    const begun = now()
    await load(system, options.jobs, () => null)
    const seconds = (now() - begun) / 1000
    await mark(options, 'end')
    const rest = { clients: BULK_CLIENTS, batch: BATCH, ...stored(await system.unfinished(), options.jobs) }
    const workload = `submit-bulk/${BATCH}`
    print(system, options, { workload, seconds, per_second: options.jobs / seconds, ...rest })
  },

  // Open loop: each is sent at its planned instant, whatever became of the others.
  async pickup (system, options) {
    const workers = new Workers(options.jobs)
    await system.open(options.url, options.workload)
    await workers.spawn(system, options)
    await workers.go()
    await sleep(2000)
    await mark(options, 'begin')
    const begun = now()
    const sent = []
    const underWay = []
    for (let place = 0; place < options.jobs; place++) {
      const left = begun + place * PICKUP_INTERVAL_MS - now()
      if (left > 0) await sleep(left)
      sent.push(now())
      underWay.push(system.submit({ place, due: null }))
    }
    await Promise.all(underWay)
    await workers.finished(system, options.jobs)
    const seconds = (now() - begun) / 1000
    await mark(options, 'end')
    const latencies = sent.map((at, place) => workers.at[place] - at)
    print(system, options, { seconds, ...quantiles(latencies), ...workers.audit() })
  },

  async precision (system, options) {
    const workers = new Workers(options.jobs)
    await system.open(options.url, options.workload)
    await workers.spawn(system, options)
    await workers.go()
    // Whole milliseconds, as that is all that a Date holds.
    const first = Math.ceil(now()) + AHEAD_MS + 3000 + Math.floor(options.jobs / 5000) * 1000
    const due = place => first + place * 1000 / DUE_PER_SECOND
    await load(system, options.jobs, due)
    if (now() + AHEAD_MS > first) throw new Error('submitting took too long for the jobs to be due 10 s later')
    await sleep(first - now())
    await mark(options, 'begin')
    const begun = now()
    await workers.finished(system, options.jobs)
    const seconds = (now() - begun) / 1000
    await mark(options, 'end')
    const late = Array.from(workers.at, (at, place) => at - due(place))
    const early = late.filter(ms => ms < 0).length
    const earliest = { early, earliest_ms: Math.max(0, ...late.map(ms => -ms)) }
    print(system, options, { seconds, ...quantiles(late.map(ms => Math.max(0, ms))), ...earliest, ...workers.audit() })
  }
}

async function load (system, jobs, due) {
  let next = 0
  const client = async () => {
    while (next < jobs) {
      const batch = []
      for (; next < jobs && batch.length < BATCH; next++) batch.push({ place: next, due: due(next) })
      await system.submitBulk(batch)
    }
  }
  await Promise.all(Array.from({ length: BULK_CLIENTS }, client))
}

const stored = (found, sent) => ({ lost: Math.max(0, sent - found), twice: Math.max(0, found - sent) })

function quantiles (latencies) {
  const sorted = Float64Array.from(latencies).sort()
  const at = quantile => sorted[Math.max(0, Math.ceil(quantile * sorted.length) - 1)]
  return { p50_ms: at(0.5), p95_ms: at(0.95), p99_ms: at(0.99), p999_ms: at(0.999), max_ms: at(1) }
}

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()

// Tells the caller where we are, and waits until it has read its counters.
async function mark (options, name) {
  console.log(`# ${name}`)
  if (options.handshake) await lines.next()
}

function print (system, { workload, jobs }, fields) {
  console.log(JSON.stringify({ workload, jobs, settings: system.settings(workload), ...fields }))
}
