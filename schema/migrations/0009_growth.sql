-- What grows costs no more to look at.

-- A pass of the misfire handler asks which jobs have a rule of their own for how long, and how many, runs are kept. It read all jobs
-- for that, several times a minute.
ALTER TABLE QRTZ_JOB
  ADD KEY QRTZ_JOB_KEEP_FOR (APPLICATION, KEEP_FOR),
  ADD KEY QRTZ_JOB_KEEP_RUNS (APPLICATION, KEEP_RUNS);

-- The line of a job: its PENDING runs, in the order in which they are to be claimed. LINE_JOB is the job's id while the run is PENDING,
-- and LINE_AT is AVAILABLE_AT. A run with an OVERLAP_KEY is in no line: LINE_JOB is 0, and LINE_AT is its OVERLAP_SLOT, so that the key
-- stays unique in OVERLAP_KEY and OVERLAP_SLOT. In all other rows both are NULL: a run that is RUNNING, or has ended, does not change
-- the index.
ALTER TABLE QRTZ_RUN
  ADD COLUMN LINE_JOB BIGINT GENERATED ALWAYS AS (CASE WHEN OVERLAP_KEY IS NOT NULL THEN 0 WHEN STATE = 'PENDING' THEN JOB_ID END) STORED,
  ADD COLUMN LINE_AT  BIGINT GENERATED ALWAYS AS (CASE WHEN OVERLAP_KEY IS NOT NULL THEN OVERLAP_SLOT WHEN STATE = 'PENDING' THEN AVAILABLE_AT END) STORED;

ALTER TABLE QRTZ_RUN
  DROP KEY QRTZ_RUN_OVERLAP,
  ADD UNIQUE KEY QRTZ_RUN_OVERLAP (OVERLAP_KEY, LINE_JOB, LINE_AT);
