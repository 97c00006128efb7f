-- Jobs are found by their tracing id. Those without one cost nothing.
CREATE INDEX job_tracing ON job (tracing_id, id) WHERE tracing_id IS NOT NULL;
CREATE INDEX history_tracing ON history (tracing_id, id) WHERE tracing_id IS NOT NULL;
