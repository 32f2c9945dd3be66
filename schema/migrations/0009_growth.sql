-- What grows costs no more to look at.

-- A pass of the misfire handler asks which jobs have a rule of their own for how long, and how many, runs are kept. It read all jobs
-- for that, several times a minute.
ALTER TABLE QRTZ_JOB
  ADD KEY QRTZ_JOB_KEEP_FOR (APPLICATION, KEEP_FOR),
  ADD KEY QRTZ_JOB_KEEP_RUNS (APPLICATION, KEEP_RUNS);
