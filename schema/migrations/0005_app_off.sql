-- Since when the app is off, or was until the node resumed, as the node has seen: what was due in that time is passed over,
-- whatever the nodes' own switches say.

ALTER TABLE QRTZ_NODE
  ADD COLUMN APP_OFF_SINCE BIGINT NULL;
