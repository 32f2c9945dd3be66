-- One bad thing stops one thing: what a claim, a heartbeat and a process are known by, each in its own place.

-- The claim that a run was last won with. Only the step that won a run can take it back.
ALTER TABLE QRTZ_RUN
  ADD COLUMN CLAIM_TOKEN BIGINT NULL;

-- One row per instance, written by its heartbeat alone: it shares no lock with claims, switches or operators.
-- BEATS grows with every heartbeat. Others judge by it whether the instance is alive, never by BEAT_AT, which is for people.
CREATE TABLE IF NOT EXISTS QRTZ_HEARTBEAT (
  INSTANCE    BIGINT NOT NULL,
  APPLICATION VARCHAR(50) NOT NULL,
  HOST_IP     VARCHAR(50) NOT NULL,
  BEATS       BIGINT NOT NULL DEFAULT 0,
  BEAT_AT     BIGINT NOT NULL DEFAULT 0,
  CLOCK_SKEW  BIGINT NULL,
  PRIMARY KEY (INSTANCE),
  KEY QRTZ_HEARTBEAT_APP (APPLICATION)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- What proves that a process of the same machine is gone: it ran in this boot of the machine and in this namespace of
-- process ids, and no process with its id started when it did.
ALTER TABLE QRTZ_NODE
  ADD COLUMN BOOT_ID       VARCHAR(40) NULL,
  ADD COLUMN PID_NAMESPACE BIGINT NULL,
  ADD COLUMN PROCESS_START BIGINT NULL;
