-- Since when the app is off, as a node has seen, or was until the node resumed. OFF_SINCE is from now on the same of the node's
-- own switch only: what was due while the app was off is passed over whatever the nodes' switches say.

ALTER TABLE QRTZ_NODE
  ADD COLUMN APP_OFF_SINCE BIGINT NULL;
